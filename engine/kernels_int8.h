// Products of int8 weights with activations that are quantised to int8 on the way.
//
// Weights: unsigned bytes (value + 128) in groups of 32 along k, one bfloat16 scale a group and output, stored as
// [n/16][k/32][8][16][4]: one 64-byte load holds 4 k of 16 outputs and serves every row. Activations are quantised
// to signed bytes in groups of 32 when they are made. Products inside a group are exact integers and groups are added
// in one order, so a row's result has the same bits whatever rows stand beside it.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

// Sixteen numbers at once; the compiler splits them where registers are narrower.
typedef float Floats __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(64), aligned(4), may_alias));
typedef int8_t Bytes __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint16_t Halves __attribute__((vector_size(32), aligned(2), may_alias));

constexpr int GROUP = 32, BLOCK = 16, AHEAD = 4096;
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

extern "C" struct Linear {  // y = x W^T + bias; n outputs (padded to 16 in storage), k inputs
    uint8_t* data;
    uint16_t* scales;
    const float* bias;  // or null
    int32_t n, k;
};

// Memory that begins on a cache line: two threads that write to neighbouring chunks should not share one.
template <class T> struct Buffer {
    struct alignas(64) Line {
        T items[64 / sizeof(T)];
    };
    std::vector<Line> lines;

    explicit Buffer(size_t count) : lines((count * sizeof(T) + 63) / 64) {}
    T* at(size_t index) { return lines.data()->items + index; }
    const T* at(size_t index) const { return lines.data()->items + index; }
};

struct Rows {  // quantised activations, group by group so that a tile's rows lie together
    int rows;
    Buffer<int8_t> q;        // [k/32][rows][32]
    Buffer<float> scale;     // [k/32][rows]
    Buffer<int32_t> offset;  // [k/32][rows]: -128 * sum of q, which takes the weights' + 128 back

    Rows(int rows, size_t k) : rows(rows), q(rows * k), scale(rows * k / GROUP), offset(rows * k / GROUP) {}
    void put(int row, int group, const float* x) {
        const Ints positive = Ints{} + 0x7fffffff;
        const float top = highest(larger((Floats)((Ints)at(x) & positive), (Floats)((Ints)at(x + BLOCK) & positive)));
        const float inverse = top > 0 ? 127 / top : 0;
        const Floats low = at(x) * inverse + ROUND, high = at(x + BLOCK) * inverse + ROUND;
        const float sum = total((low - ROUND) + (high - ROUND));
        const size_t place = (size_t)group * rows + row;
        *(Bytes*)q.at(place * GROUP) = __builtin_convertvector((Ints)low - (Ints)(Floats{} + ROUND), Bytes);
        *(Bytes*)q.at(place * GROUP + BLOCK) = __builtin_convertvector((Ints)high - (Ints)(Floats{} + ROUND), Bytes);
        *scale.at(place) = top / 127 + 0 * sum;  // not a number where any of them is none, so that nothing hides it
        *offset.at(place) = std::isnan(sum) ? 0 : (int32_t)(-128 * sum);
    }
};

static bool plain_only = false;  // tests hold the two paths against each other

template <bool Plain> static inline Ints dot4(Ints sum, const uint8_t* w, const int8_t* x) {
#if defined(__AVX512VNNI__)
    if constexpr (!Plain) {  // not the intrinsic: GCC would load the four bytes by an instruction of their own
        asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(*(const Ints*)w), "m"(*(const int32_t*)x));
        return sum;
    }
#endif
    for (int i = 0; i < BLOCK; i++)
        sum[i] += w[4 * i] * x[0] + w[4 * i + 1] * x[1] + w[4 * i + 2] * x[2] + w[4 * i + 3] * x[3];
    return sum;
}

static inline const uint8_t* block_of(const Linear& w, int output) {  // where the weights of an output's block begin
    return w.data + (size_t)(output / BLOCK) * w.k * BLOCK;
}

static void fetch_start(const Linear& w, int output) {  // what Coming can't ask for: the start of a stage
    for (int i = 0; i < AHEAD && output < w.n; i += 64) __builtin_prefetch(block_of(w, output) + i);
}

// What to ask the cache for: AHEAD bytes further on up to `end`, and beyond that from `after` on.
struct Coming {
    const uint8_t *end, *after;

    void fetch(const uint8_t* data) const {
        const uint8_t* next = data + AHEAD < end ? data + AHEAD : after + (data + AHEAD - end);
        for (int i = 0; i < GROUP * BLOCK; i += 64) __builtin_prefetch(next + i);
    }
};

// R rows times the block of outputs from n on. All rows go through the weights together, so that memory is read at an
// even pace and never rests while they multiply.
template <bool Plain, int R, class Sink>
static inline void tile(const Linear& w, int n, const Rows& x, int row, const Coming* coming, Sink&& sink) {
    constexpr int H = std::min(R, 8);  // rows at a time: their integer sums and all float sums fit the registers
    const int groups = w.k / GROUP, rows = x.rows;
    const int8_t* q = x.q.at((size_t)row * GROUP);
    const float* x_scale = x.scale.at(row);
    const int32_t* offset = x.offset.at(row);
    const uint8_t* data = block_of(w, n);
    const uint16_t* scales = w.scales + (size_t)(n / BLOCK) * groups * BLOCK;
    Floats sum[R];
    for (int r = 0; r < R; r++) sum[r] = Floats{};
    for (int g = 0; g < groups; g++) {
        if (coming) coming->fetch(data);
        const Floats scale = widen(scales);
#pragma GCC unroll 2
        for (int first = 0; first < R; first += H) {
            Ints dot[H];
            for (int r = 0; r < H; r++) dot[r] = Ints{} + offset[first + r];
            for (int s = 0; s < GROUP / 4; s++)
                for (int r = 0; r < H; r++)
                    dot[r] = dot4<Plain>(dot[r], data + s * 4 * BLOCK, q + (first + r) * GROUP + s * 4);
            for (int r = 0; r < H; r++)
                sum[first + r] += __builtin_convertvector(dot[r], Floats) * (scale * x_scale[first + r]);
        }
        data += GROUP * BLOCK, scales += BLOCK, q += (size_t)rows * GROUP, x_scale += rows, offset += rows;
    }
    for (int r = 0; r < R; r++) sink(row + r, sum[r]);
}

template <bool Plain, class Sink>
static void multiply(const Linear& w, int n, const Rows& x, const Coming& coming, Sink&& sink) {
    const Coming* ask = &coming;  // the first tile asks, the others find the weights at hand
    int row = 0;
    for (; x.rows - row >= 16; row += 16, ask = nullptr) tile<Plain, 16>(w, n, x, row, ask, sink);
    if (x.rows - row >= 8) tile<Plain, 8>(w, n, x, row, ask, sink), row += 8, ask = nullptr;
    if (x.rows - row >= 4) tile<Plain, 4>(w, n, x, row, ask, sink), row += 4, ask = nullptr;
    if (x.rows - row >= 2) tile<Plain, 2>(w, n, x, row, ask, sink), row += 2, ask = nullptr;
    if (x.rows - row >= 1) tile<Plain, 1>(w, n, x, row, ask, sink);
}

// Outputs [first, first + count) of every row, written (or added) to y[row * stride + output]. `after` is the block
// that will probably be wanted next.
template <bool Add>
static void product(const Linear& w, const Rows& x, int first, int count, float* y, int64_t stride, const uint8_t* after) {
    const int end = std::min(first + count, w.n);
    const Coming coming{block_of(w, end + BLOCK - 1), after};
    for (int n = first; n < end; n += BLOCK) {
        const int width = std::min(BLOCK, w.n - n);
        auto sink = [&](int row, Floats value) {
            float* to = y + row * stride + n;
            if (width == BLOCK && !w.bias) at(to) = Add ? at(to) + value : value;
            else
                for (int i = 0; i < width; i++) to[i] = (Add ? to[i] : 0) + (value[i] + (w.bias ? w.bias[n + i] : 0));
        };
        plain_only ? multiply<true>(w, n, x, coming, sink) : multiply<false>(w, n, x, coming, sink);
    }
}

// Quantises one block of outputs from float32 [n, k] into w: scale = largest / 127, rounded up to bfloat16 first, so
// that the values are chosen for the scale they will be multiplied by.
static void pack(const Linear& w, int block, const float* from) {
    const int groups = w.k / GROUP;
    for (int i = 0; i < BLOCK; i++) {
        const int output = block * BLOCK + i;
        for (int g = 0; g < groups; g++) {
            const float* x = from + (size_t)output * w.k + g * GROUP;
            float top = 0;
            for (int j = 0; j < GROUP && output < w.n; j++) top = std::max(top, std::fabs(x[j]));
            const uint32_t bits = (std::bit_cast<uint32_t>(top / 127) + 0xffff) >> 16;
            const float scale = std::bit_cast<float>(bits << 16), inverse = scale > 0 ? 1 / scale : 0;
            const size_t place = (size_t)block * groups + g;
            w.scales[place * BLOCK + i] = (uint16_t)bits;
            for (int j = 0; j < GROUP; j++) {
                const float value = output < w.n ? std::nearbyint(x[j] * inverse) : 0;
                uint8_t* to = w.data + place * GROUP * BLOCK + (j / 4 * BLOCK + i) * 4 + j % 4;
                *to = (uint8_t)((int)std::min(127.0f, std::max(-127.0f, value)) + 128);
            }
        }
    }
}
