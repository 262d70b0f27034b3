// The mass of a row of logits at a temperature: what the sampler needs of the whole vocabulary, without sorting it.
#pragma once
#include "kernels_lanes.h"

extern "C" struct Mass {  // of weights w = exp((x - top) * factor): their sum, and the sum of w * ln w
    const float* x;
    int64_t n;
    float top, factor;
    double total, weighted;
};

static void weigh(Mass& m) {
    constexpr int RUN = 64 * BLOCK;  // added up in float32; runs are added in double
    constexpr float FLOOR = -87.0f;  // exp of it is the last normal float32: nothing a sum would notice
    m.total = m.weighted = 0;
    int64_t i = 0;
    while (i + BLOCK <= m.n) {
        Floats sum = {}, product = {};
        for (const int64_t end = std::min(m.n, i + RUN); i + BLOCK <= end; i += BLOCK) {
            const Floats scaled = larger((at(m.x + i) - m.top) * m.factor, Floats{} + FLOOR);
            const Floats weight = exponential(scaled);
            sum += weight, product += weight * scaled;
        }
        m.total += total(sum), m.weighted += total(product);
    }
    for (; i < m.n; i++) {
        const float scaled = std::max((m.x[i] - m.top) * m.factor, FLOOR), weight = exponential(scaled);
        m.total += weight, m.weighted += weight * scaled;
    }
}

extern "C" struct Lead {  // the `count` largest of x, descending, equal ones by lower id; minus infinity left out
    const float* x;
    int64_t n;
    int64_t* ids;
    int32_t count, found;
    float top;  // the largest, or not a number where any of them is none
};

static void find_leading(Lead& l) {
    struct Entry {
        float x;
        int64_t id;
    };
    const auto before = [](const Entry& a, const Entry& b) { return a.x > b.x || (a.x == b.x && a.id < b.id); };
    std::vector<Entry> heap;  // the worst of the best in front
    heap.reserve(l.count);
    float floor = -INFINITY;
    bool none = false;
    const auto offer = [&](int64_t i) {  // ids ascend, so an equal one comes too late
        const float x = l.x[i];
        none |= std::isnan(x);
        if (!(x > floor)) return;
        if ((int)heap.size() == l.count) std::pop_heap(heap.begin(), heap.end(), before), heap.pop_back();
        heap.push_back({x, i}), std::push_heap(heap.begin(), heap.end(), before);
        if ((int)heap.size() == l.count) floor = heap.front().x;
    };
    constexpr int RUN = 4 * BLOCK;
    int64_t i = 0;
    for (; i + RUN <= l.n; i += RUN) {
        const Floats a = at(l.x + i), b = at(l.x + i + BLOCK), c = at(l.x + i + 2 * BLOCK), d = at(l.x + i + 3 * BLOCK);
        const Floats sums = (a + b) + (c + d);  // not a number where one is none, or both infinities meet
        if (highest(larger(larger(a, b), larger(c, d))) > floor || std::isnan(total(sums)))
            for (int k = 0; k < RUN; k++) offer(i + k);
    }
    for (; i < l.n; i++) offer(i);
    std::sort_heap(heap.begin(), heap.end(), before);
    l.found = (int)heap.size();
    l.top = none ? NAN : heap.empty() ? -INFINITY : heap.front().x;
    for (int k = 0; k < l.found; k++) l.ids[k] = heap[k].id;
}
