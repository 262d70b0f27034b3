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
