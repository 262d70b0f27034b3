// Sixteen numbers at a time, in vectors that the compiler splits where registers are narrower.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

typedef float Floats __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(64), aligned(4), may_alias));
typedef int8_t Bytes __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint16_t Halves __attribute__((vector_size(32), aligned(2), may_alias));

// GCC takes a function that only prefetches for one that does nothing, and drops calls of it.
#define FETCH __attribute__((always_inline)) inline

constexpr int BLOCK = 16;  // lanes
constexpr Ints LANE = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
constexpr float ROUND = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number, to nearest even

static inline Floats& at(float* p) { return *(Floats*)p; }
static inline const Floats& at(const float* p) { return *(const Floats*)p; }
static inline Floats larger(Floats a, Floats b) { return a > b ? a : b; }

template <int H, int... L> static inline Floats exchange(Floats x, std::integer_sequence<int, L...>) {
#if defined(__clang__)
    return __builtin_shufflevector(x, x, (L ^ H)...);
#else
    return __builtin_shuffle(x, Ints{(L ^ H)...});
#endif
}
template <int H> static inline Floats exchange(Floats x) {  // lane l gets what lane l ^ H had
    return exchange<H>(x, std::make_integer_sequence<int, BLOCK>());
}
static inline float total(Floats x) {
    x += exchange<8>(x), x += exchange<4>(x), x += exchange<2>(x);
    return x[0] + x[1];
}
static inline float highest(Floats x) {
    x = larger(x, exchange<8>(x)), x = larger(x, exchange<4>(x)), x = larger(x, exchange<2>(x));
    return std::max(x[0], x[1]);
}
static inline Floats widen(const uint16_t* bfloats) {
#if defined(__AVX512F__)
    return (Floats)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)bfloats)), 16);
#else
    return (Floats)(__builtin_convertvector(*(const Halves*)bfloats, Ints) << 16);
#endif
}

constexpr float LOWEST = -87.0f, UTMOST = 88.0f;  // beyond, exp leaves the range of normal float32

static inline Floats exponential_within(Floats x) {  // Cephes' expf, sixteen at once: relative error under 2e-7
    const Floats rounded = x * 1.44269504f + ROUND, n = rounded - ROUND;  // n in the lowest bits of `rounded`
    const Floats r = x - n * 0.693359375f + n * 2.12194440e-4f;
    Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f, p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f, p = p * r + 5.0000001201e-1f;
    return (p * r * r + r + 1.0f) * (Floats)(((Ints)rounded + 127) << 23);
}
static inline Floats exponential(Floats x) {
    return exponential_within(x < LOWEST ? Floats{} + LOWEST : x > UTMOST ? Floats{} + UTMOST : x);
}
static inline float exponential(float x) { return exponential(Floats{} + x)[0]; }

// Memory that begins on a cache line, since two threads that write to neighbouring chunks should not share one. It is
// kept from one use to the next, and what it holds at first is anything.
template <class T> struct Buffer {
    struct alignas(64) Line {
        T items[64 / sizeof(T)];
    };
    std::unique_ptr<Line[]> lines;
    size_t room = 0;  // lines

    void need(size_t count) {
        constexpr size_t LARGE = 1 << 17;  // lines, 8 MB: what a long prompt needed is not kept for single tokens
        const size_t wanted = (count * sizeof(T) + 63) / 64;
        if (wanted <= room && (room < LARGE || room / 8 < wanted)) return;
        lines.reset();
        lines.reset(new Line[wanted]);
        room = wanted;
    }
    T* at(size_t index) { return lines.get()->items + index; }
    const T* at(size_t index) const { return lines.get()->items + index; }
};
