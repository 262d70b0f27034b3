// Attention of one query over one tile of keys and values, in float32, and reading such tiles out of the page pool.
#pragma once
#include "kernels_lanes.h"

constexpr int TILE = 64;     // positions of the context that are attended to at a time
constexpr int QUERIES = 64;  // at most that share a tile once it is read
constexpr int RUN = 8;       // rows at most that do
constexpr int WIDEST = 256;  // head

// Copies `count` heads of width D out of the pool.
static inline void pool_read(const void* pool, bool bfloat16, const int64_t* where, int count, int D, float* to) {
    for (int t = 0; t < count; t++, to += D)
        if (bfloat16)
            for (int i = 0; i < D; i += BLOCK) at(to + i) = widen((const uint16_t*)pool + where[t] + i);
        else
            for (int i = 0; i < D; i += BLOCK) at(to + i) = at((const float*)pool + where[t] + i);
}

// Asks the cache for a head of some positions, a few at a time: all at once they would wait for each other.
struct Wanted {
    const char* pool;  // null: nothing is wanted
    const int64_t* where;
    int count, size, head_bytes;

    FETCH void fetch(int from, int to) const {
        for (int t = from; pool && t < std::min(to, count); t++)
            for (int i = 0; i < head_bytes; i += 64) __builtin_prefetch(pool + where[t] * size + i);
    }
};

// Lane i of the result is the sum over the lanes of rows[i]; `rows` is used up.
template <int H> static inline Floats sum_lanes(Floats* rows) {
    const Ints odd = (LANE & H) != 0;
    for (int i = 0; i < H; i++) {
        const Floats a = rows[i], b = rows[i + H];
        rows[i] = (odd ? b : a) + exchange<H>(odd ? a : b);
    }
    if constexpr (H > 1) return sum_lanes<H / 2>(rows);
    return rows[0];
}

// weights = exp(q k - maximum) of `count` keys; `out` gets the maximum and the sum of the weights.
static inline void score(
    const float* q, const float* keys, int count, int D, float scaling, float* weights, float* out) {
    Floats scores[TILE / BLOCK], top = Floats{} - INFINITY, sum = {};
    const int parts = (count + BLOCK - 1) / BLOCK;
    for (int n = 0; n < parts; n++) {
        Floats rows[BLOCK] = {};
        for (int i = 0; i < D; i += BLOCK) {
            const float* from = keys + (size_t)n * BLOCK * D + i;
#pragma GCC unroll 16
            for (int t = 0; t < BLOCK; t++) rows[t] += at(q + i) * at(from + t * D);
        }
        scores[n] = LANE < count - n * BLOCK ? sum_lanes<8>(rows) * scaling : Floats{} - INFINITY;
        top = larger(top, scores[n]);
    }
    out[0] = highest(top);
    for (int n = 0; n < parts; n++) sum += at(weights + n * BLOCK) = exponential(scores[n] - out[0]);
    out[1] = total(sum);
}

// Adds up the values by their weights, V blocks of a head at a time.
template <int V>
static inline void mix(const float* weights, const float* values, int count, int D, float* out) {
    Floats even[V] = {}, odd[V] = {};  // two chains: one would wait for itself
    int t = 0;
    for (; t + 1 < count; t += 2)
        for (int v = 0; v < V; v++) {
            even[v] += weights[t] * at(values + t * D + v * BLOCK);
            odd[v] += weights[t + 1] * at(values + (t + 1) * D + v * BLOCK);
        }
    for (int v = 0; v < V; v++) {
        if (t < count) even[v] += weights[t] * at(values + t * D + v * BLOCK);
        at(out + v * BLOCK) = even[v] + odd[v];
    }
}
