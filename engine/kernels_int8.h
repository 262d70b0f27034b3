// Products of int8 weights with activations that are quantised to int8 on the way.
//
// Weights: unsigned bytes (value + 128) in groups of 32 along k, one bfloat16 scale a group and output, stored as
// [n/16][k/32][8][16][4]: one 64-byte load holds 4 k of 16 outputs and serves every row. Activations are quantised
// to signed bytes in groups of 32 when they are made. Products inside a group are exact integers and groups are added
// in one order, so a row's result has the same bits whatever rows stand beside it.
#pragma once
#include "kernels_lanes.h"

constexpr int GROUP = 32;    // inputs that share a scale
constexpr int PANEL = 16;    // rows that lie together
constexpr int AHEAD = 4096;  // bytes of weights to ask for before they are multiplied
#if defined(__AVX512F__)
constexpr int TOGETHER = 16, AT_ONCE = 8;  // rows of a tile; of them those whose integer sums are kept in registers
#else
constexpr int TOGETHER = 4, AT_ONCE = 2;
#endif
typedef int32_t Four __attribute__((aligned(1), may_alias));  // signed bytes

extern "C" struct Linear {  // y = x W^T + bias; n outputs (padded to 16 in storage), k inputs
    uint8_t* data;
    uint16_t* scales;
    const float* bias;  // or null
    int32_t n, k;
};

// Quantised activations in panels of 16 rows (or all rows, if fewer), group by group inside: what a tile reads lies
// together, and rows of different panels share no cache line.
struct Rows {
    int rows = 0, width = 0, groups = 0;
    Buffer<int8_t> q;        // [panels][k/32][width][32]
    Buffer<float> scale;     // [panels][k/32][width]
    Buffer<int32_t> offset;  // [panels][k/32][width]: -128 * sum of q, which takes the weights' + 128 back

    void shape(int count, int k) {
        rows = count, width = std::min(count, PANEL), groups = k / GROUP;
        const size_t size = (size_t)panels(rows) * width * groups;
        q.need(size * GROUP), scale.need(size), offset.need(size);
    }
    size_t place(int row, int group) const { return ((size_t)(row / PANEL) * groups + group) * width + row % PANEL; }
    static int panels(int rows) { return (rows + PANEL - 1) / PANEL; }
    static int end(int panel, int rows) { return std::min((panel + 1) * PANEL, rows); }

    void copy(const Rows& from, size_t source, size_t target, size_t count) {  // places
        std::memcpy(q.at(target * GROUP), from.q.at(source * GROUP), count * GROUP);
        std::memcpy(scale.at(target), from.scale.at(source), count * sizeof(float));
        std::memcpy(offset.at(target), from.offset.at(source), count * sizeof(int32_t));
    }
    void put(int row, int group, const float* x) {
        const Ints positive = Ints{} + 0x7fffffff;
        const float top = highest(larger((Floats)((Ints)at(x) & positive), (Floats)((Ints)at(x + BLOCK) & positive)));
        const float inverse = top > 0 ? 127 / top : 0;
        const Floats low = at(x) * inverse + ROUND, high = at(x + BLOCK) * inverse + ROUND;
        const float sum = total((low - ROUND) + (high - ROUND));
        const size_t to = place(row, group);
        *(Bytes*)q.at(to * GROUP) = __builtin_convertvector((Ints)low - (Ints)(Floats{} + ROUND), Bytes);
        *(Bytes*)q.at(to * GROUP + BLOCK) = __builtin_convertvector((Ints)high - (Ints)(Floats{} + ROUND), Bytes);
        *scale.at(to) = top / 127 + 0 * sum;  // not a number where any of them is none, so that nothing hides it
        *offset.at(to) = std::isnan(sum) ? 0 : (int32_t)(-128 * sum);
    }
};

static bool plain_only = false;  // tests hold the two paths against each other

// Adds the products of 4 k of 16 outputs with 4 activations. `Plain` is for tests: they hold the paths together.
template <bool Plain> static inline Ints dot4(Ints sum, const uint8_t* w, const int8_t* x) {
    if constexpr (!Plain) {
#if defined(__AVX512VNNI__)
        // Not the intrinsic: GCC would load the four bytes by an instruction of their own.
        asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(*(const Ints*)w), "m"(*(const Four*)x));
        return sum;
#elif defined(__AVX2__)
        const __m256i four = _mm256_set1_epi32(*(const Four*)x);
        __m256i part[2];
        std::memcpy(part, &sum, sizeof part);
        for (int i = 0; i < 2; i++) {
            const __m256i weights = _mm256_loadu_si256((const __m256i*)w + i);
#if defined(__AVXVNNI__)
            part[i] = _mm256_dpbusd_avx_epi32(part[i], weights, four);
#else
            // Bytes times bytes, added in pairs, must stay within 16 bits: 127 * 127 * 2 does, 255 * 127 * 2 does not.
            // So the weights lose their + 128, and the activations' signs move to them.
            const __m256i centred = _mm256_xor_si256(weights, _mm256_set1_epi8(-128));
            const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(four), _mm256_sign_epi8(centred, four));
            part[i] = _mm256_add_epi32(part[i], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#endif
        }
        std::memcpy(&sum, part, sizeof part);
        return sum;
#endif
    }
    for (int i = 0; i < BLOCK; i++)
        sum[i] += w[4 * i] * x[0] + w[4 * i + 1] * x[1] + w[4 * i + 2] * x[2] + w[4 * i + 3] * x[3];
    return sum;
}

// Whether the path above multiplies the weights without their + 128, so that there is nothing to take back.
#if defined(__AVX2__) && !defined(__AVXVNNI__) && !defined(__AVX512VNNI__)
constexpr bool CENTRED = true;
#else
constexpr bool CENTRED = false;
#endif

static inline const uint8_t* block_of(const Linear& w, int output) {  // where the weights of an output's block begin
    return w.data + (size_t)(output / BLOCK) * w.k * BLOCK;
}

// What to ask the cache for: AHEAD bytes further on up to `end`, and beyond that from `after` on.
struct Coming {
    const uint8_t *end, *after;

    FETCH void fetch(const uint8_t* data) const {
        const uint8_t* next = data + AHEAD < end ? data + AHEAD : after + (data + AHEAD - end);
        for (int i = 0; i < GROUP * BLOCK; i += 64) __builtin_prefetch(next + i);
    }
};

// R rows times the block of outputs from n on. All rows go through the weights together, so that memory is read at an
// even pace and never rests while they multiply.
template <bool Plain, int R, class Sink>
static inline void tile(const Linear& w, int n, const Rows& x, int row, const Coming* coming, Sink&& sink) {
    constexpr int H = std::min(R, AT_ONCE);
    const int groups = w.k / GROUP, width = x.width;
    const int8_t* q = x.q.at(x.place(row, 0) * GROUP);
    const float* x_scale = x.scale.at(x.place(row, 0));
    const int32_t* offset = x.offset.at(x.place(row, 0));
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
            for (int r = 0; r < H; r++) dot[r] = Ints{} + (CENTRED && !Plain ? 0 : offset[first + r]);
            for (int s = 0; s < GROUP / 4; s++)
                for (int r = 0; r < H; r++)
                    dot[r] = dot4<Plain>(dot[r], data + s * 4 * BLOCK, q + (first + r) * GROUP + s * 4);
            for (int r = 0; r < H; r++)
                sum[first + r] += __builtin_convertvector(dot[r], Floats) * (scale * x_scale[first + r]);
        }
        data += GROUP * BLOCK, scales += BLOCK, q += width * GROUP, x_scale += width, offset += width;
    }
    for (int r = 0; r < R; r++) sink(row + r, sum[r]);
}

template <bool Plain, class Sink>
static void multiply(const Linear& w, int n, const Rows& x, const Coming& coming, Sink&& sink) {
    const Coming* ask = &coming;  // the first tile asks, the others find the weights at hand
    int row = 0;
    for (; x.rows - row >= TOGETHER; row += TOGETHER, ask = nullptr) tile<Plain, TOGETHER>(w, n, x, row, ask, sink);
    if (x.rows - row >= 8) tile<Plain, 8>(w, n, x, row, ask, sink), row += 8, ask = nullptr;
    if (x.rows - row >= 4) tile<Plain, 4>(w, n, x, row, ask, sink), row += 4, ask = nullptr;
    if (x.rows - row >= 2) tile<Plain, 2>(w, n, x, row, ask, sink), row += 2, ask = nullptr;
    if (x.rows - row >= 1) tile<Plain, 1>(w, n, x, row, ask, sink);
}

// Outputs [first, first + count) of every row, written (or added) to y[row * stride + output]. `after` is the block
// that will probably be wanted next.
template <bool Add>
static void product(
    const Linear& w, const Rows& x, int first, int count, float* y, int64_t stride, const uint8_t* after) {
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
    const int groups = w.k / GROUP, count = std::min(BLOCK, w.n - block * BLOCK);
    const Ints positive = Ints{} + 0x7fffffff;
    for (int g = 0; g < groups; g++) {
        const size_t place = (size_t)block * groups + g;
        uint8_t* to = w.data + place * GROUP * BLOCK;
        for (int i = 0; i < BLOCK; i++) {
            alignas(64) int8_t values[GROUP] = {};
            uint32_t bits = 0;
            if (i < count) {
                const float* x = from + (size_t)(block * BLOCK + i) * w.k + g * GROUP;
                const Floats low = at(x), high = at(x + BLOCK);
                const float top = highest(larger((Floats)((Ints)low & positive), (Floats)((Ints)high & positive)));
                bits = (std::bit_cast<uint32_t>(top / 127) + 0xffff) >> 16;
                const float scale = std::bit_cast<float>(bits << 16), inverse = scale > 0 ? 1 / scale : 0;
                for (int j = 0; j < GROUP; j++) values[j] = (int8_t)std::nearbyint(x[j] * inverse);
            }
            w.scales[place * BLOCK + i] = (uint16_t)bits;
            for (int s = 0; s < GROUP / 4; s++) {
                const uint32_t four = *(const Four*)(values + 4 * s) ^ 0x80808080;  // + 128 in each byte
                std::memcpy(to + (s * BLOCK + i) * 4, &four, 4);
            }
        }
    }
}
