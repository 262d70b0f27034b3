// Int8 products and one whole decode step for Llama-like models, behind a plain C interface (see kernels.py).
//
// Weights: unsigned bytes (value + 128) in groups of 32 along k, one bfloat16 scale a group and output, stored as
// [n/16][k/32][8][16][4]: one 64-byte load holds 4 k of 16 outputs and serves every row. Activations are quantised
// to signed bytes in groups of 32 when they are made. Products inside a group are exact integers and groups are added
// in one order, so a row's result has the same bits whatever rows stand beside it.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>
#if defined(__AVX512VNNI__)
#include <immintrin.h>
#endif

typedef float Floats __attribute__((vector_size(64), aligned(4), may_alias));  // 16 outputs of one row
typedef int32_t Ints __attribute__((vector_size(64), aligned(4), may_alias));

constexpr int GROUP = 32, BLOCK = 16, SPLIT = 256, TILE = 64, GROUPS = 64;

extern "C" {
struct Linear {  // y = x W^T + bias; n outputs (padded to 16 in storage), k inputs
    const uint8_t* data;
    const uint16_t* scales;
    const float* bias;  // or null
    int32_t n, k;
};
struct Layer {
    Linear q, k, v, o, gate, up, down;
    const float *attention_norm, *mlp_norm, *q_norm, *k_norm;  // the last two null where the model has none
    void *keys, *values;                                       // [slots, kv_heads, head_dim]
    int64_t window;                                            // positions a query sees; 0: all
};
struct Model {
    const Layer* layers;
    Linear head;
    const float *norm, *cos, *sin;  // tables: [positions, head_dim / 2]
    int32_t layer_count, hidden, heads, kv_heads, head_dim, inner, page_size, kv_bfloat16;
    int64_t positions, slots;  // rows of the tables, and of each layer's keys
    float epsilon, scaling;
};
struct Batch {
    float* x;  // [rows, hidden] embeddings in, residual stream during the step
    const int64_t *positions, *slots, *lengths;
    const int32_t* page_table;  // [rows, pages]
    float* logits;              // [rows, vocabulary]
    int32_t rows, pages;
};
}

// ---------------------------------------------------------------------------------------------------------- threads
// One job at a time. Its stages are cut into numbered chunks; a thread takes the next number and waits until every
// chunk of the earlier stages is done. Helpers may come late or not at all: the caller never waits for them to wake.

static inline void relax(int& spins) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    if (++spins > 2000) std::this_thread::yield();
}

struct Team {
    std::atomic<uint32_t> epoch{0};
    std::atomic<int> active{0};
    std::atomic<bool> open{false};
    alignas(64) std::atomic<int64_t> next{0};
    alignas(64) std::atomic<int64_t> done{0};
    void (*body)(Team&, void*) = nullptr;
    void* job = nullptr;
    int width = 0;
    std::vector<std::thread> helpers;

    void help(int index) {
        for (uint32_t seen = 0;; epoch.wait(seen)) {
            seen = epoch.load();
            active.fetch_add(1);
            if (open.load() && index < width) body(*this, job);
            active.fetch_sub(1);
        }
    }
    template <class Job> void run(int threads, Job& work) {
        next = 0, done = 0, job = &work, width = threads - 1;
        body = [](Team& team, void* it) { (*static_cast<Job*>(it))(team); };
        while ((int)helpers.size() < width) helpers.emplace_back(&Team::help, this, (int)helpers.size());
        open.store(true);
        if (width > 0) epoch.fetch_add(1), epoch.notify_all();
        work(*this);
        open.store(false);
        for (int spins = 0; active.load() != 0;) relax(spins);
    }
};
static Team& team = *new Team;  // never destroyed: helpers may sleep in it when the process ends

struct Walk {  // one thread's way through the stages of a job
    Team& team;
    int64_t base = 0, ticket = team.next.fetch_add(1);
    template <class F> void stage(int count, F chunk) {
        while (ticket < base + count) {
            wait();
            chunk((int)(ticket - base));
            team.done.fetch_add(1, std::memory_order_release);
            ticket = team.next.fetch_add(1);
        }
        base += count;
    }
    void wait() const {
        for (int spins = 0; team.done.load(std::memory_order_acquire) < base;) relax(spins);
    }
};

// --------------------------------------------------------------------------------------------------------- products

struct Rows {  // quantised activations, group by group so that a tile's rows lie together
    std::vector<int8_t> q;        // [k/32][rows][32]
    std::vector<float> scale;     // [k/32][rows]
    std::vector<int32_t> offset;  // [k/32][rows]: -128 * sum of q, which takes the weights' + 128 back
    int rows = 0;
    void resize(int count, int k) {
        rows = count;
        q.resize((size_t)count * k), scale.resize((size_t)count * k / GROUP), offset.resize((size_t)count * k / GROUP);
    }
    void put(int row, int group, const float* x) {
        float top = 0;
#pragma omp simd reduction(max : top)
        for (int i = 0; i < GROUP; i++) top = std::max(top, std::fabs(x[i]));
        const float inverse = top > 0 ? 127 / top : 0;
        const size_t at = (size_t)group * rows + row;
        int8_t* to = &q[at * GROUP];
        int32_t sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < GROUP; i++) {
            const int32_t value = (int32_t)std::nearbyint(x[i] * inverse);
            to[i] = (int8_t)value;
            sum += value;
        }
        scale[at] = top / 127, offset[at] = -128 * sum;
    }
};

static bool plain_only = false;  // tests hold the two paths against each other

template <bool Plain> static inline Ints dot4(Ints sum, const uint8_t* w, const int8_t* x) {
#if defined(__AVX512VNNI__)
    if constexpr (!Plain) {
        int32_t four;
        std::memcpy(&four, x, 4);
        return (Ints)_mm512_dpbusd_epi32((__m512i)sum, _mm512_loadu_si512(w), _mm512_set1_epi32(four));
    }
#endif
    for (int i = 0; i < BLOCK; i++)
        sum[i] += w[4 * i] * x[0] + w[4 * i + 1] * x[1] + w[4 * i + 2] * x[2] + w[4 * i + 3] * x[3];
    return sum;
}

static inline Floats widen(const uint16_t* bfloats) {
    typedef uint16_t Halves __attribute__((vector_size(32), aligned(2), may_alias));
    return (Floats)(__builtin_convertvector(*(const Halves*)bfloats, Ints) << 16);
}

template <bool Plain, int R, class Sink>
static inline void tile(const Linear& w, int block, const Rows& x, int row, Sink&& sink) {
    const int groups = w.k / GROUP, rows = x.rows;
    const int8_t* q = x.q.data() + (size_t)row * GROUP;
    const float* x_scale = x.scale.data() + row;
    const int32_t* offset = x.offset.data() + row;
    const uint8_t* data = w.data + (size_t)block * groups * GROUP * BLOCK;
    const uint16_t* scales = w.scales + (size_t)block * groups * BLOCK;
    Floats sum[R] = {};
    for (int g = 0; g < groups; g++) {
        Ints dot[R];
        for (int r = 0; r < R; r++) dot[r] = Ints{} + offset[r];
        for (int s = 0; s < GROUP / 4; s++)
            for (int r = 0; r < R; r++) dot[r] = dot4<Plain>(dot[r], data + s * 4 * BLOCK, q + r * GROUP + s * 4);
        const Floats scale = widen(scales);
        for (int r = 0; r < R; r++) sum[r] += __builtin_convertvector(dot[r], Floats) * (scale * x_scale[r]);
        data += GROUP * BLOCK, scales += BLOCK, q += (size_t)rows * GROUP, x_scale += rows, offset += rows;
    }
    for (int r = 0; r < R; r++) sink(row + r, sum[r]);
}

template <bool Plain, class Sink> static void block_rows(const Linear& w, int block, const Rows& x, Sink&& sink) {
    int row = 0;
    for (; x.rows - row >= 8; row += 8) tile<Plain, 8>(w, block, x, row, sink);
    if (x.rows - row >= 4) tile<Plain, 4>(w, block, x, row, sink), row += 4;
    if (x.rows - row >= 2) tile<Plain, 2>(w, block, x, row, sink), row += 2;
    if (x.rows - row >= 1) tile<Plain, 1>(w, block, x, row, sink);
}

// Outputs [first, first + count) of every row, written (or added) to y[row * stride + output].
template <bool Add>
static void product(const Linear& w, const Rows& x, int first, int count, float* y, int64_t stride) {
    for (int n = first; n < std::min(first + count, w.n); n += BLOCK) {
        const int width = std::min(BLOCK, w.n - n);
        auto sink = [&](int row, Floats value) {
            float* to = y + row * stride + n;
            if (width == BLOCK && !w.bias) *(Floats*)to = Add ? *(Floats*)to + value : value;
            else
                for (int i = 0; i < width; i++) to[i] = (Add ? to[i] : 0) + (value[i] + (w.bias ? w.bias[n + i] : 0));
        };
        plain_only ? block_rows<true>(w, n / BLOCK, x, sink) : block_rows<false>(w, n / BLOCK, x, sink);
    }
}

// ------------------------------------------------------------------------------------------------- pieces of a layer

static inline Floats exponential(Floats x) {  // Cephes' expf, sixteen at once: relative error under 2e-7
    x = x < -87.0f ? Floats{} - 87.0f : x > 88.0f ? Floats{} + 88.0f : x;
    const Floats n = (x * 1.44269504f + 12582912.0f) - 12582912.0f;  // to the nearest whole number
    const Floats r = x - n * 0.693359375f + n * 2.12194440e-4f;
    Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f, p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f, p = p * r + 5.0000001201e-1f;
    return (p * r * r + r + 1.0f) * (Floats)((__builtin_convertvector(n, Ints) + 127) << 23);
}
static inline float exponential(float x) { return exponential(Floats{} + x)[0]; }

// Lanes with bit H come from b, the others from a; each is added to its neighbour H lanes away.
template <int H, int... L> static inline Floats fold(Floats a, Floats b, std::integer_sequence<int, L...>) {
#if defined(__clang__)
    return __builtin_shufflevector(a, b, (L & H ? L + 16 : L)...) +
           __builtin_shufflevector(a, b, (L & H ? L - H + 16 : L + H)...);
#else
    return __builtin_shuffle(a, b, Ints{(L & H ? L + 16 : L)...}) +
           __builtin_shuffle(a, b, Ints{(L & H ? L - H + 16 : L + H)...});
#endif
}
template <int H> static inline Floats sum_lanes(Floats* rows) {  // lane i of the result: the sum of rows[i]
    for (int i = 0; i < H; i++) rows[i] = fold<H>(rows[i], rows[i + H], std::make_integer_sequence<int, BLOCK>());
    if constexpr (H > 1) return sum_lanes<H / 2>(rows);
    return rows[0];
}
static inline float total(Floats x) {
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) x[i] += x[i + half];
    return x[0];
}

static void rms_norm(const float* x, const float* weight, int width, float epsilon, float* y) {
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int i = 0; i < width; i++) squares += x[i] * x[i];
    const float inverse = 1 / std::sqrt(squares / width + epsilon);
    for (int i = 0; i < width; i++) y[i] = x[i] * inverse * weight[i];
}

static void rotate(float* x, const float* cos, const float* sin, int half) {
    for (int i = 0; i < half; i++) {
        const float a = x[i], b = x[i + half];
        x[i] = a * cos[i] - b * sin[i], x[i + half] = b * cos[i] + a * sin[i];
    }
}

static uint16_t to_bfloat16(float x) {  // to nearest even
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    return std::isnan(x) ? 0x7fc0 : (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static void pool_write(const Model& m, void* pool, int64_t at, const float* x) {
    for (int i = 0; i < m.head_dim; i++)
        if (m.kv_bfloat16) ((uint16_t*)pool)[at + i] = to_bfloat16(x[i]);
        else ((float*)pool)[at + i] = x[i];
}

static void pool_read(const Model& m, const void* pool, int64_t at, float* x) {
    if (!m.kv_bfloat16) std::memcpy(x, (const float*)pool + at, sizeof(float) * m.head_dim);
    else
        for (int i = 0; i < m.head_dim; i++)
            x[i] = std::bit_cast<float>((uint32_t)((const uint16_t*)pool)[at + i] << 16);
}

struct Step {
    const Model& m;
    const Batch& b;
    int splits, groups = m.heads / m.kv_heads, qkv_width = (m.heads + 2 * m.kv_heads) * m.head_dim;
    Rows input, context, inner;
    std::vector<float> qkv, gate, up, partial;  // partial: [rows][heads][splits][head_dim + 2], then maximum and sum

    Step(const Model& model, const Batch& batch) : m(model), b(batch) {
        const int64_t longest = *std::max_element(b.lengths, b.lengths + b.rows);
        splits = (int)((longest + SPLIT - 1) / SPLIT);
        input.resize(b.rows, m.hidden), context.resize(b.rows, m.heads * m.head_dim), inner.resize(b.rows, m.inner);
        qkv.resize((size_t)b.rows * qkv_width), gate.resize((size_t)b.rows * m.inner), up.resize(gate.size());
        partial.resize((size_t)b.rows * m.heads * splits * (m.head_dim + 2));
    }
    float* partial_at(int row, int head, int split) {
        return &partial[(((size_t)row * m.heads + head) * splits + split) * (m.head_dim + 2)];
    }
    void normalise(int row, const float* weight) {
        float y[GROUP];
        const float* x = b.x + (size_t)row * m.hidden;
        float squares = 0;
#pragma omp simd reduction(+ : squares)
        for (int i = 0; i < m.hidden; i++) squares += x[i] * x[i];
        const float inverse = 1 / std::sqrt(squares / m.hidden + m.epsilon);
        for (int g = 0; g < m.hidden / GROUP; g++) {
            for (int i = 0; i < GROUP; i++) y[i] = x[g * GROUP + i] * inverse * weight[g * GROUP + i];
            input.put(row, g, y);
        }
    }
    // One head of queries, keys or values: product, norm, rotation, and for the latter two the write to the pool.
    void project(const Layer& l, int head) {
        const int D = m.head_dim, kind = head < m.heads ? 0 : head < m.heads + m.kv_heads ? 1 : 2;
        const Linear& w = kind == 0 ? l.q : kind == 1 ? l.k : l.v;
        const int own = head - (kind == 0 ? 0 : kind == 1 ? m.heads : m.heads + m.kv_heads);
        product<false>(w, input, own * D, D, &qkv[(size_t)(head - own) * D], qkv_width);
        for (int row = 0; row < b.rows; row++) {
            float* x = &qkv[(size_t)row * qkv_width + head * D];
            const float* norm = kind == 0 ? l.q_norm : kind == 1 ? l.k_norm : nullptr;
            if (norm) rms_norm(x, norm, D, m.epsilon, x);
            const int64_t at = b.positions[row] * (D / 2);
            if (kind != 2) rotate(x, m.cos + at, m.sin + at, D / 2);
            if (kind != 0) pool_write(m, kind == 1 ? l.keys : l.values, (b.slots[row] * m.kv_heads + own) * D, x);
        }
    }
    // Queries of one KV head over one split of one row's context: softmax and sum online, in float32.
    void attend(const Layer& l, int item) {
        const int D = m.head_dim, split = item % splits, kv = item / splits % m.kv_heads, row = item / splits / m.kv_heads;
        const int64_t length = b.lengths[row], seen = l.window ? std::max<int64_t>(0, length - l.window) : 0;
        const int64_t from = std::max<int64_t>(seen, (int64_t)split * SPLIT);
        const int64_t to = std::min<int64_t>(length, (int64_t)(split + 1) * SPLIT);
        const int32_t* table = b.page_table + (size_t)row * b.pages;
        const float* q = &qkv[(size_t)row * qkv_width + kv * groups * D];
        float* out = partial_at(row, kv * groups, split);  // one every `stride`
        const size_t stride = (size_t)splits * (D + 2);
        for (int g = 0; g < groups; g++) {
            std::fill(out + g * stride, out + g * stride + D + 1, 0.0f);
            out[g * stride + D] = -INFINITY, out[g * stride + D + 1] = 0;
        }
        float tile[TILE * 256], weights[GROUPS * TILE];
        int64_t at[TILE];
        for (int64_t start = from; start < to; start += TILE) {
            const int count = (int)std::min<int64_t>(TILE, to - start);
            for (int t = 0; t < count; t++) {
                const int64_t p = start + t;
                at[t] = (((int64_t)table[p / m.page_size] * m.page_size + p % m.page_size) * m.kv_heads + kv) * D;
                pool_read(m, l.keys, at[t], tile + t * D);
            }
            for (int g = 0; g < groups; g++) score(q + g * D, tile, count, weights + g * TILE, out + g * stride);
            for (int t = 0; t < count; t++) pool_read(m, l.values, at[t], tile + t * D);
            for (int g = 0; g < groups; g++)
                for (int i = 0; i < D; i += BLOCK * 4)
                    switch (std::min(4, (D - i) / BLOCK)) {
                    case 4: add_values<4>(weights + g * TILE, tile + i, count, out + g * stride + i); break;
                    case 3: add_values<3>(weights + g * TILE, tile + i, count, out + g * stride + i); break;
                    case 2: add_values<2>(weights + g * TILE, tile + i, count, out + g * stride + i); break;
                    default: add_values<1>(weights + g * TILE, tile + i, count, out + g * stride + i);
                    }
        }
    }
    // Weights exp(q k - maximum) of `count` keys; shrinks what `out` holds (sum of values, maximum, sum of weights).
    void score(const float* q, const float* keys, int count, float* weights, float* out) {
        const int D = m.head_dim;
        Floats scores[TILE / BLOCK], highest = Floats{} - INFINITY;
        for (int n = 0; n < TILE / BLOCK; n++) {
            Floats rows[BLOCK] = {};
            const float* from = keys + (size_t)n * BLOCK * D;
            if (n * BLOCK < count)
                for (int i = 0; i < D; i += BLOCK)
                    for (int t = 0; t < BLOCK; t++) rows[t] += *(const Floats*)(q + i) * *(const Floats*)(from + t * D + i);
            const Ints lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
            scores[n] = lane < count - n * BLOCK ? sum_lanes<8>(rows) * m.scaling : Floats{} - INFINITY;
            highest = scores[n] > highest ? scores[n] : highest;
        }
        float top = out[D];
        for (int i = 0; i < BLOCK; i++) top = std::max(top, highest[i]);
        Floats sum = {};
        for (int n = 0; n < TILE / BLOCK; n++) sum += *(Floats*)(weights + n * BLOCK) = exponential(scores[n] - top);
        const float shrink = exponential(out[D] - top);
        out[D] = top, out[D + 1] = out[D + 1] * shrink + total(sum);
        for (int i = 0; i < D; i++) out[i] *= shrink;
    }
    template <int V> void add_values(const float* weights, const float* values, int count, float* out) {
        Floats sum[V];
        for (int v = 0; v < V; v++) sum[v] = *(Floats*)(out + v * BLOCK);
        for (int t = 0; t < count; t++, values += m.head_dim)
            for (int v = 0; v < V; v++) sum[v] += weights[t] * *(const Floats*)(values + v * BLOCK);
        for (int v = 0; v < V; v++) *(Floats*)(out + v * BLOCK) = sum[v];
    }
    void gather(int row) {  // joins the splits of each head
        float* y = &qkv[(size_t)row * qkv_width];  // over the queries, which are done with
        for (int head = 0; head < m.heads; head++) {
            float top = -INFINITY, sum = 0, *to = y + (size_t)head * m.head_dim;
            std::fill(to, to + m.head_dim, 0.0f);
            for (int s = 0; s < splits; s++) top = std::max(top, partial_at(row, head, s)[m.head_dim]);
            for (int s = 0; s < splits; s++) {
                const float* part = partial_at(row, head, s);
                if (part[m.head_dim + 1] == 0) continue;
                const float factor = exponential(part[m.head_dim] - top);
                sum += factor * part[m.head_dim + 1];
                for (int i = 0; i < m.head_dim; i++) to[i] += factor * part[i];
            }
            for (int i = 0; i < m.head_dim; i++) to[i] /= sum;
        }
        for (int g = 0; g < m.heads * m.head_dim / GROUP; g++) context.put(row, g, y + g * GROUP);
    }
    void activate(const Layer& l, int g) {  // silu(gate) * up for one group of inner outputs
        product<false>(l.gate, input, g * GROUP, GROUP, gate.data(), m.inner);
        product<false>(l.up, input, g * GROUP, GROUP, up.data(), m.inner);
        for (int row = 0; row < b.rows; row++) {
            const float *x = &gate[(size_t)row * m.inner + g * GROUP], *u = &up[(size_t)row * m.inner + g * GROUP];
            float y[GROUP];
            for (int i = 0; i < GROUP; i += BLOCK) {
                const Floats a = *(const Floats*)(x + i), c = *(const Floats*)(u + i);
                *(Floats*)(y + i) = a / (1.0f + exponential(-a)) * c;
            }
            inner.put(row, g, y);
        }
    }
    void operator()(Team& team) {
        Walk walk{team};
        const int cut = 64;
        for (int i = 0; i < m.layer_count; i++) {
            const Layer& l = m.layers[i];
            walk.stage(b.rows, [&](int row) { normalise(row, l.attention_norm); });
            walk.stage(m.heads + 2 * m.kv_heads, [&](int head) { project(l, head); });
            walk.stage(b.rows * m.kv_heads * splits, [&](int item) { attend(l, item); });
            walk.stage(b.rows, [&](int row) { gather(row); });
            walk.stage((m.hidden + cut - 1) / cut, [&](int c) { product<true>(l.o, context, c * cut, cut, b.x, m.hidden); });
            walk.stage(b.rows, [&](int row) { normalise(row, l.mlp_norm); });
            walk.stage(m.inner / GROUP, [&](int g) { activate(l, g); });
            walk.stage((m.hidden + cut - 1) / cut, [&](int c) { product<true>(l.down, inner, c * cut, cut, b.x, m.hidden); });
        }
        walk.stage(b.rows, [&](int row) { normalise(row, m.norm); });
        walk.stage((m.head.n + 255) / 256, [&](int c) { product<false>(m.head, input, c * 256, 256, b.logits, m.head.n); });
        walk.wait();
    }
};

extern "C" {
// Returns 0, or 1 + the first row that reaches outside the pool or the tables; then nothing was written.
int cutaway_step(const Model* model, const Batch* batch, int threads) {
    const Batch& b = *batch;
    for (int row = 0; row < b.rows; row++) {
        const int64_t pages = (b.lengths[row] + model->page_size - 1) / model->page_size;
        bool good = b.lengths[row] > 0 && pages <= b.pages && b.positions[row] >= 0;
        good = good && b.positions[row] < model->positions && b.slots[row] >= 0 && b.slots[row] < model->slots;
        for (int64_t p = 0; good && p < pages; p++) {
            const int64_t page = b.page_table[(size_t)row * b.pages + p];
            good = page >= 0 && (page + 1) * model->page_size <= model->slots;
        }
        if (!good) return row + 1;
    }
    Step step(*model, b);
    team.run(threads, step);
    return 0;
}

void cutaway_linear(const Linear* w, const float* x, float* y, int64_t rows, int threads) {
    Rows input;
    input.resize((int)rows, w->k);
    auto job = [&](Team& team) {
        Walk walk{team};
        walk.stage((int)(rows + 7) / 8, [&](int c) {
            for (int row = c * 8; row < std::min((int)rows, c * 8 + 8); row++)
                for (int g = 0; g < w->k / GROUP; g++) input.put(row, g, x + (size_t)row * w->k + g * GROUP);
        });
        walk.stage((w->n + 63) / 64, [&](int c) { product<false>(*w, input, c * 64, 64, y, w->n); });
        walk.wait();
    };
    team.run(threads, job);
}

int cutaway_vector() {
#if defined(__AVX512VNNI__)
    return 1;
#else
    return 0;
#endif
}
void cutaway_plain(int on) { plain_only = on != 0; }
}
