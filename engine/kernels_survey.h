// What the sampler needs of a row of logits: its leading tokens and its mass at some temperatures, without sorting it.
#pragma once
#include "kernels_lanes.h"

constexpr int MOST_MASSES = 4;

extern "C" struct Look {  // see `Look` of survey.py
    const float *x, *partner;  // [n]; `partner` may be null
    int64_t* ids;              // [count]: the leading tokens, descending, equal ones by lower id, no minus infinity
    float *logits, *partners;  // [count]: their values in x and in `partner`
    double* weighed;           // [3, room]: exponents (x - top) / temperature, weights exp of it, their running sums
    double temperature;        // 0: not wanted
    int64_t n;
    int32_t count, found, masses, room;
    float top;                      // the largest, or not a number where any of them is none
    float factors[MOST_MASSES];     // of weights w = exp((x - top) * factor):
    double totals[MOST_MASSES];     // their sum,
    double weighteds[MOST_MASSES];  // and the sum of w * ln w
};

static void weigh(const Look& l, float factor, double& sum, double& product) {
    constexpr int RUN = 64 * BLOCK;  // added up in float32; runs are added in double
    sum = product = 0;
    int64_t i = 0;
    while (i + BLOCK <= l.n) {
        Floats weights = {}, products = {};
        for (const int64_t end = std::min(l.n, i + RUN); i + BLOCK <= end; i += BLOCK) {
            const Floats scaled = larger((at(l.x + i) - l.top) * factor, Floats{} + LOWEST);
            const Floats weight = exponential_within(scaled);
            weights += weight, products += weight * scaled;
        }
        sum += total(weights), product += total(products);
    }
    for (; i < l.n; i++) {
        const float scaled = std::max((l.x[i] - l.top) * factor, LOWEST), weight = exponential(scaled);
        sum += weight, product += weight * scaled;
    }
}

static inline uint32_t reaching(Floats x, float least) {  // a bit for every lane that is at least so large
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(least), _CMP_GE_OQ);
#else
    uint32_t bits = 0;
    for (int lane = 0; lane < BLOCK; lane++) bits |= (uint32_t)(x[lane] >= least) << lane;
    return bits;
#endif
}

// The largest, and a value that at least `count` tokens reach, and few more: the largest of each of COLUMNS interleaved
// parts tell it, since tokens with neighbouring ids are often probable together.
static float threshold(Look& l) {
    constexpr int COLUMNS = 768;
    alignas(64) float maxima[COLUMNS];
    std::fill_n(maxima, COLUMNS, -INFINITY);
    Ints none = {};
    int64_t i = 0;
    for (; i + COLUMNS <= l.n; i += COLUMNS)
        for (int c = 0; c < COLUMNS; c += BLOCK) {
            const Floats x = at(l.x + i + c);
            none |= x != x, at(maxima + c) = larger(x, at(maxima + c));
        }
    bool bad = false;
    for (int lane = 0; lane < BLOCK; lane++) bad |= none[lane] != 0;
    for (int c = 0; i < l.n; i++, c++) bad |= std::isnan(l.x[i]), maxima[c] = std::max(maxima[c], l.x[i]);
    l.top = bad ? NAN : *std::max_element(maxima, maxima + COLUMNS);
    if (l.n < 2 * COLUMNS || l.count > COLUMNS / 2) return -INFINITY;
    std::nth_element(maxima, maxima + l.count - 1, maxima + COLUMNS, std::greater<float>());
    return maxima[l.count - 1];
}

static void find_leading(Look& l, float least) {
    static thread_local std::vector<int64_t> keys;  // ascending as the tokens are to stand: ~logit, then id
    const size_t room = 4 * (size_t)l.count + 1024;
    keys.clear();
    least = std::max(least, -std::numeric_limits<float>::max());  // minus infinity is left out
    const auto offer = [&](int64_t id) {
        int32_t bits = std::bit_cast<int32_t>(l.x[id] + 0.0f);  // adding 0 makes 0.0 of -0.0
        bits = bits < 0 ? bits ^ 0x7FFFFFFF : bits;             // orders as the floats do
        keys.push_back(((int64_t)~bits << 32) | id);
    };
    const auto keep_best = [&] {
        if (keys.size() <= (size_t)l.count) return;
        std::nth_element(keys.begin(), keys.begin() + l.count - 1, keys.end());
        keys.resize(l.count);
    };
    int64_t i = 0;
    for (; i + BLOCK <= l.n; i += BLOCK) {
        for (uint32_t bits = reaching(at(l.x + i), least); bits; bits &= bits - 1) offer(i + std::countr_zero(bits));
        if (keys.size() < room) continue;
        keep_best();  // many equal logits: ids ascend, so a further one that equals the last of these comes too late
        least = std::nextafter(l.x[keys.back() & 0xFFFFFFFF], INFINITY);
    }
    for (; i < l.n; i++)
        if (l.x[i] >= least) offer(i);
    keep_best();
    std::sort(keys.begin(), keys.end());
    l.found = (int)keys.size();
    for (int k = 0; k < l.found; k++) {
        const int64_t id = keys[k] & 0xFFFFFFFF;
        l.ids[k] = id, l.logits[k] = l.x[id];
        if (l.partner) l.partners[k] = l.partner[id];
    }
}

// In double: a draw walks along these sums.
static void weigh_leading(Look& l) {
    constexpr double SMALLEST = -740.0;  // exp of it is the last double above zero
    double sum = 0, *exponents = l.weighed, *weights = exponents + l.room, *sums = weights + l.room;
    for (int k = 0; k < l.found; k++) {
        exponents[k] = std::max(((double)l.logits[k] - l.top) / l.temperature, SMALLEST);
        weights[k] = std::exp(exponents[k]);
        sums[k] = sum += weights[k];
    }
}

static void look(Look& l) {
    const float least = threshold(l);
    l.found = 0;
    if (!std::isfinite(l.top)) return;
    find_leading(l, least);
    if (l.temperature > 0) weigh_leading(l);
    for (int m = 0; m < l.masses; m++) weigh(l, l.factors[m], l.totals[m], l.weighteds[m]);
}
