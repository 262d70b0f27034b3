// One whole decode step for Llama-like models with int8 weights, behind a plain C interface (see kernels.py).
#include "kernels_int8.h"
#include "kernels_team.h"

constexpr int TILE = 64;     // positions of the context that are attended to at a time
constexpr int QUERIES = 64;  // query heads that may share a KV head
constexpr int WIDEST = 256;  // head

extern "C" {
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

static inline Floats exponential(Floats x) {  // Cephes' expf, sixteen at once: relative error under 2e-7
    x = x < -87.0f ? Floats{} - 87.0f : x > 88.0f ? Floats{} + 88.0f : x;
    const Floats n = (x * 1.44269504f + ROUND) - ROUND;
    const Floats r = x - n * 0.693359375f + n * 2.12194440e-4f;
    Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f, p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f, p = p * r + 5.0000001201e-1f;
    return (p * r * r + r + 1.0f) * (Floats)((__builtin_convertvector(n, Ints) + 127) << 23);
}
static inline float exponential(float x) { return exponential(Floats{} + x)[0]; }

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

static float inverse_rms(const float* x, int width, float epsilon) {
    Floats squares = {};
    for (int i = 0; i < width; i += BLOCK) squares += at(x + i) * at(x + i);
    return 1 / std::sqrt(total(squares) / width + epsilon);
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

static void pool_write(const Model& m, void* pool, int64_t where, const float* x) {
    for (int i = 0; i < m.head_dim; i++)
        if (m.kv_bfloat16) ((uint16_t*)pool)[where + i] = to_bfloat16(x[i]);
        else ((float*)pool)[where + i] = x[i];
}

// Copies `count` heads out of the pool, and asks the cache for those that will be read after them.
static void pool_read(const Model& m, const void* pool, const void* next, const int64_t* where, int count, float* to) {
    const int D = m.head_dim, size = m.kv_bfloat16 ? 2 : 4;
    for (int t = 0; t < count; t++, to += D) {
        for (int i = 0; next && i < D * size; i += 64) __builtin_prefetch((const char*)next + where[t] * size + i);
        const uint16_t* halves = (const uint16_t*)pool + where[t];
        const float* whole = (const float*)pool + where[t];
        if (m.kv_bfloat16)
            for (int i = 0; i < D; i += BLOCK) at(to + i) = widen(halves + i);
        else
            for (int i = 0; i < D; i += BLOCK) at(to + i) = at(whole + i);
    }
}

struct Step {
    const Model& m;
    const Batch& b;
    int tiles, group = m.heads / m.kv_heads, qkv_width = (m.heads + 2 * m.kv_heads) * m.head_dim;
    Rows input, context, inner;
    std::vector<float> qkv, gate, up, partial;  // partial: [rows][heads][tiles][head_dim + 2]: values, maximum, sum

    Step(const Model& model, const Batch& batch) : m(model), b(batch) {
        const int64_t longest = *std::max_element(b.lengths, b.lengths + b.rows);
        tiles = (int)((longest + TILE - 1) / TILE);
        input.resize(b.rows, m.hidden), context.resize(b.rows, m.heads * m.head_dim), inner.resize(b.rows, m.inner);
        qkv.resize((size_t)b.rows * qkv_width), gate.resize((size_t)b.rows * m.inner), up.resize(gate.size());
        partial.resize((size_t)b.rows * m.heads * tiles * (m.head_dim + 2));
    }
    float* partial_at(int row, int head, int tile) {
        return &partial[(((size_t)row * m.heads + head) * tiles + tile) * (m.head_dim + 2)];
    }
    void normalise(int row, const float* weight) {
        const float* x = b.x + (size_t)row * m.hidden;
        const float inverse = inverse_rms(x, m.hidden, m.epsilon);
        float y[GROUP];
        for (int g = 0; g < m.hidden / GROUP; g++) {
            for (int i = 0; i < GROUP; i += BLOCK) at(y + i) = at(x + g * GROUP + i) * inverse * at(weight + g * GROUP + i);
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
            if (const float* norm = kind == 0 ? l.q_norm : kind == 1 ? l.k_norm : nullptr) {
                const float inverse = inverse_rms(x, D, m.epsilon);
                for (int i = 0; i < D; i += BLOCK) at(x + i) = at(x + i) * inverse * at(norm + i);
            }
            const int64_t angle = b.positions[row] * (D / 2);
            if (kind != 2) rotate(x, m.cos + angle, m.sin + angle, D / 2);
            if (kind != 0) pool_write(m, kind == 1 ? l.keys : l.values, (b.slots[row] * m.kv_heads + own) * D, x);
        }
    }
    // All queries of one row over one tile of its context. Tiles stand at fixed positions, so that what they add up
    // to does not depend on the batch.
    void attend(const Layer& l, int item) {
        const int D = m.head_dim, row = item / tiles, number = item % tiles;
        const int64_t length = b.lengths[row], seen = l.window ? std::max<int64_t>(0, length - l.window) : 0;
        const int64_t from = std::max<int64_t>(seen, (int64_t)number * TILE);
        const int count = (int)(std::min<int64_t>(length, (int64_t)(number + 1) * TILE) - from);
        for (int head = 0; head < m.heads; head++) partial_at(row, head, number)[D + 1] = 0;
        if (count <= 0) return;
        float tile[TILE * WIDEST], weights[QUERIES * TILE];
        int64_t where[TILE];
        const int32_t* table = b.page_table + (size_t)row * b.pages;
        for (int t = 0; t < count; t++) {
            const int64_t page = table[(from + t) / m.page_size];
            where[t] = (page * m.page_size + (from + t) % m.page_size) * m.kv_heads * D;
        }
        for (int kv = 0; kv < m.kv_heads; kv++) {
            pool_read(m, l.keys, l.values, where, count, tile);
            for (int g = 0; g < group; g++) {
                const int head = kv * group + g;
                const float* q = &qkv[(size_t)row * qkv_width + head * D];
                score(q, tile, count, weights + g * TILE, partial_at(row, head, number) + D);
            }
            const size_t next_head = D * (m.kv_bfloat16 ? 2 : 4);
            pool_read(m, l.values, kv + 1 < m.kv_heads ? (char*)l.keys + next_head : nullptr, where, count, tile);
            for (int t = 0; t < count; t++) where[t] += D;
            for (int g = 0; g < group; g++) {
                float* out = partial_at(row, kv * group + g, number);
                int i = 0;
                for (; i + 4 * BLOCK <= D; i += 4 * BLOCK) mix<4>(weights + g * TILE, tile + i, count, out + i);
                for (; i < D; i += BLOCK) mix<1>(weights + g * TILE, tile + i, count, out + i);
            }
        }
    }
    // weights = exp(q k - maximum) of `count` keys; `out` gets the maximum and the sum of the weights.
    void score(const float* q, const float* keys, int count, float* weights, float* out) const {
        Floats scores[TILE / BLOCK], top = Floats{} - INFINITY, sum = {};
        const int parts = (count + BLOCK - 1) / BLOCK;
        for (int n = 0; n < parts; n++) {
            Floats rows[BLOCK] = {};
            for (int i = 0; i < m.head_dim; i += BLOCK) {
                const float* from = keys + (size_t)n * BLOCK * m.head_dim + i;
#pragma GCC unroll 16
                for (int t = 0; t < BLOCK; t++) rows[t] += at(q + i) * at(from + t * m.head_dim);
            }
            scores[n] = LANE < count - n * BLOCK ? sum_lanes<8>(rows) * m.scaling : Floats{} - INFINITY;
            top = larger(top, scores[n]);
        }
        out[0] = highest(top);
        for (int n = 0; n < parts; n++) sum += at(weights + n * BLOCK) = exponential(scores[n] - out[0]);
        out[1] = total(sum);
    }
    template <int V> void mix(const float* weights, const float* values, int count, float* out) const {
        Floats even[V] = {}, odd[V] = {};  // two chains: one would wait for itself
        int t = 0;
        for (; t + 1 < count; t += 2)
            for (int v = 0; v < V; v++) {
                even[v] += weights[t] * at(values + t * m.head_dim + v * BLOCK);
                odd[v] += weights[t + 1] * at(values + (t + 1) * m.head_dim + v * BLOCK);
            }
        for (int v = 0; v < V; v++) {
            if (t < count) even[v] += weights[t] * at(values + t * m.head_dim + v * BLOCK);
            at(out + v * BLOCK) = even[v] + odd[v];
        }
    }
    void gather(int row) {  // joins the tiles of each head
        const int D = m.head_dim, used = (int)((b.lengths[row] + TILE - 1) / TILE);
        float* y = &qkv[(size_t)row * qkv_width];  // over the queries, which are done with
        for (int head = 0; head < m.heads; head++, y += D) {
            float top = -INFINITY, sum = 0;
            std::fill(y, y + D, 0.0f);
            for (int n = 0; n < used; n++)
                if (const float* part = partial_at(row, head, n); part[D + 1] > 0) top = std::max(top, part[D]);
            for (int n = 0; n < used; n++) {
                const float* part = partial_at(row, head, n);
                if (part[D + 1] == 0) continue;
                const float factor = exponential(part[D] - top);
                sum += factor * part[D + 1];
                for (int i = 0; i < D; i++) y[i] += factor * part[i];
            }
            for (int i = 0; i < D; i++) y[i] /= sum;
        }
        y = &qkv[(size_t)row * qkv_width];
        for (int g = 0; g < m.heads * D / GROUP; g++) context.put(row, g, y + g * GROUP);
    }
    void activate(const Layer& l, int g) {  // silu(gate) * up for one group of inner outputs
        product<false>(l.gate, input, g * GROUP, GROUP, gate.data(), m.inner);
        product<false>(l.up, input, g * GROUP, GROUP, up.data(), m.inner);
        for (int row = 0; row < b.rows; row++) {
            const float *x = &gate[(size_t)row * m.inner + g * GROUP], *u = &up[(size_t)row * m.inner + g * GROUP];
            float y[GROUP];
            for (int i = 0; i < GROUP; i += BLOCK) {
                const Floats a = at(x + i);
                at(y + i) = a / (1.0f + exponential(-a)) * at(u + i);
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
            walk.stage(b.rows * tiles, [&](int item) { attend(l, item); });
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

static Team& team = *new Team;  // never destroyed: helpers may sleep in it when the process ends

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

// Fills data and scales of `to` from float32 weights [n, k].
void cutaway_pack(const Linear* to, const float* weights, int threads) {
    auto job = [&](Team& team) {
        Walk walk{team};
        walk.stage((to->n + BLOCK - 1) / BLOCK, [&](int block) { pack(*to, block, weights); });
        walk.wait();
    };
    team.run(threads, job);
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
