// One whole decode step for Llama-like models with int8 weights, behind a plain C interface (see kernels.py).
#include "kernels_attention.h"
#include "kernels_int8.h"
#include "kernels_survey.h"
#include "kernels_team.h"

constexpr int CUT = 64;  // outputs of a product that one thread takes at a time

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
    const int64_t* outputs;     // [output_count]: rows whose logits are wanted
    float* logits;              // [output_count, vocabulary]
    int32_t rows, pages, output_count;
};
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

struct Step {
    const Model& m;
    const Batch& b;
    int threads;
    std::vector<int> starts;  // of the runs of rows that attend to the same pages (a prompt's); and the end
    int tiles, D = m.head_dim, group = m.heads / m.kv_heads;
    Rows input{b.rows, m.hidden}, context{b.rows, m.heads * D}, inner{b.rows, m.inner};
    Rows last{b.output_count, m.hidden};
    // What one chunk writes lies together: by head, by group of inner outputs, by tile.
    Buffer<float> qkv{(size_t)(m.heads + 2 * m.kv_heads) * b.rows * D};  // [heads + 2 kv_heads][rows][head_dim]
    Buffer<float> gate{(size_t)b.rows * m.inner}, up{(size_t)b.rows * m.inner};  // [inner/32][rows][32]
    Buffer<float> joined{(size_t)b.rows * m.heads * D};                          // [rows][heads][head_dim]
    Buffer<float> partial;  // [rows][tiles][heads][head_dim + 16]: values, maximum, sum, nothing

    Step(const Model& model, const Batch& batch, int threads)
        : m(model), b(batch), threads(threads),
          tiles((int)((*std::max_element(b.lengths, b.lengths + b.rows) + TILE - 1) / TILE)),
          partial((size_t)b.rows * tiles * m.heads * (D + BLOCK)) {
        for (int row = 0; row < b.rows; row++) {
            const bool room = row && row - starts.back() < std::min(RUN, QUERIES / group);
            if (!room || !same_pages(row - 1, row)) starts.push_back(row);
        }
        starts.push_back(b.rows);
    }
    bool same_pages(int one, int other) const {
        const int64_t pages = (std::min(b.lengths[one], b.lengths[other]) + m.page_size - 1) / m.page_size;
        const int32_t* table = b.page_table + (size_t)one * b.pages;
        return std::equal(table, table + pages, b.page_table + (size_t)other * b.pages);
    }

    float* head_at(int head, int row) { return qkv.at(((size_t)head * b.rows + row) * D); }
    float* partial_at(int row, int tile, int head) {
        return partial.at((((size_t)row * tiles + tile) * m.heads + head) * (D + BLOCK));
    }
    void normalise(int row, const float* weight, Rows& to, int place) {
        const float* x = b.x + (size_t)row * m.hidden;
        const float inverse = inverse_rms(x, m.hidden, m.epsilon);
        float y[GROUP];
        for (int g = 0; g < m.hidden / GROUP; g++) {
            for (int i = 0; i < GROUP; i += BLOCK)
                at(y + i) = at(x + g * GROUP + i) * inverse * at(weight + g * GROUP + i);
            to.put(place, g, y);
        }
    }
    // One head of queries, keys or values: product, norm, rotation, and for the latter two the write to the pool.
    void project(const Layer& l, int head) {
        const int kind = head < m.heads ? 0 : head < m.heads + m.kv_heads ? 1 : 2;
        const Linear& w = kind == 0 ? l.q : kind == 1 ? l.k : l.v;
        const int own = head - (kind == 0 ? 0 : kind == 1 ? m.heads : m.heads + m.kv_heads);
        product<false>(w, input, own * D, D, head_at(head, 0) - own * D, D, block_of(w, (own + threads) * D));
        for (int row = 0; row < b.rows; row++) {
            float* x = head_at(head, row);
            if (const float* norm = kind == 0 ? l.q_norm : kind == 1 ? l.k_norm : nullptr) {
                const float inverse = inverse_rms(x, D, m.epsilon);
                for (int i = 0; i < D; i += BLOCK) at(x + i) = at(x + i) * inverse * at(norm + i);
            }
            const int64_t angle = b.positions[row] * (D / 2);
            if (kind != 2) rotate(x, m.cos + angle, m.sin + angle, D / 2);
            if (kind != 0) pool_write(m, kind == 1 ? l.keys : l.values, (b.slots[row] * m.kv_heads + own) * D, x);
        }
    }
    // Positions [first, second) of a tile that a row attends to.
    std::pair<int, int> span(const Layer& l, int row, int number) const {
        const int64_t seen = l.window ? std::max<int64_t>(0, b.lengths[row] - l.window) : 0;
        const int64_t start = std::max(seen, (int64_t)number * TILE);
        return {(int)start, (int)std::max(start, std::min<int64_t>(b.lengths[row], (int64_t)(number + 1) * TILE))};
    }
    // All queries of one run of rows over one tile of their context. Tiles stand at fixed positions, so that what they
    // add up to does not depend on the batch. `Width` is head_dim where it is known when compiling, or 0.
    template <int Width> void attend(const Layer& l, int run, int number) {
        const int D = Width ? Width : m.head_dim, size = m.kv_bfloat16 ? 2 : 4;
        int first = INT32_MAX, end = 0;
        for (int row = starts[run]; row < starts[run + 1]; row++) {
            const auto [from, to] = span(l, row, number);
            if (from < to) first = std::min(first, from), end = std::max(end, to);
            for (int head = 0; head < m.heads; head++) partial_at(row, number, head)[D + 1] = 0;
        }
        if (first >= end) return;
        int64_t where[TILE];
        const int32_t* table = b.page_table + (size_t)longest_of(run) * b.pages;
        for (int p = first, page = p / m.page_size, offset = p % m.page_size; p < end; p++) {
            where[p - first] = ((int64_t)table[page] * m.page_size + offset) * m.kv_heads * D;
            if (++offset == m.page_size) offset = 0, page++;
        }
        float tile[TILE * (Width ? Width : WIDEST)], weights[QUERIES * TILE];
        const int parts = (starts[run + 1] - starts[run]) * group;
        for (int kv = 0; kv < m.kv_heads; kv++) {
            // While the keys are worked on, the values are asked for, and then the next head's keys.
            const Wanted values{(const char*)l.values, where, end - first, size, D * size};
            const Wanted keys{kv + 1 < m.kv_heads ? (const char*)l.keys : nullptr, where, end - first, size, D * size};
            auto each_query = [&](auto work) {
                for (int part = 0; part < parts; part++) {
                    const int row = starts[run] + part / group, head = kv * group + part % group;
                    const auto [from, to] = span(l, row, number);
                    const float* rows = tile + (size_t)(from - first) * D;
                    if (from < to) work(part, rows, to - from, head_at(head, row), partial_at(row, number, head));
                }
            };
            pool_read(l.keys, m.kv_bfloat16, where, end - first, D, tile);
            each_query([&](int part, const float* rows, int count, const float* query, float* out) {
                values.fetch(TILE * part / parts, TILE * (part + 1) / parts);
                score(query, rows, count, D, m.scaling, weights + part * TILE, out + D);
            });
            pool_read(l.values, m.kv_bfloat16, where, end - first, D, tile);
            for (int t = 0; t < end - first; t++) where[t] += D;
            each_query([&](int part, const float* rows, int count, const float*, float* out) {
                keys.fetch(TILE * part / parts, TILE * (part + 1) / parts);
                int i = 0;
                for (; i + 4 * BLOCK <= D; i += 4 * BLOCK) mix<4>(weights + part * TILE, rows + i, count, D, out + i);
                for (; i < D; i += BLOCK) mix<1>(weights + part * TILE, rows + i, count, D, out + i);
            });
        }
    }
    int longest_of(int run) const {
        return (int)(std::max_element(b.lengths + starts[run], b.lengths + starts[run + 1]) - b.lengths);
    }
    void gather(int row) {  // joins the tiles of each head
        const int used = (int)((b.lengths[row] + TILE - 1) / TILE);
        float* y = joined.at((size_t)row * m.heads * D);
        for (int head = 0; head < m.heads; head++, y += D) {
            float top = -INFINITY, sum = 0;
            for (int n = 0; n < used; n++)
                if (const float* part = partial_at(row, n, head); part[D + 1] > 0) top = std::max(top, part[D]);
            std::fill(y, y + D, 0.0f);
            for (int n = 0; n < used; n++) {
                const float* part = partial_at(row, n, head);
                if (part[D + 1] == 0) continue;
                const float factor = exponential(part[D] - top);
                sum += factor * part[D + 1];
                for (int i = 0; i < D; i += BLOCK) at(y + i) += factor * at(part + i);
            }
            for (int i = 0; i < D; i += BLOCK) at(y + i) /= sum;
        }
        y = joined.at((size_t)row * m.heads * D);
        for (int g = 0; g < m.heads * D / GROUP; g++) context.put(row, g, y + g * GROUP);
    }
    void activate(const Layer& l, int g) {  // silu(gate) * up for one group of inner outputs
        const int first = g * GROUP;
        float *x = gate.at((size_t)first * b.rows), *u = up.at((size_t)first * b.rows), y[GROUP];
        product<false>(l.gate, input, first, GROUP, x - first, GROUP, block_of(l.up, first));
        product<false>(l.up, input, first, GROUP, u - first, GROUP, block_of(l.gate, first + threads * GROUP));
        for (int row = 0; row < b.rows; row++, x += GROUP, u += GROUP) {
            for (int i = 0; i < GROUP; i += BLOCK) at(y + i) = at(x + i) / (1.0f + exponential(-at(x + i))) * at(u + i);
            inner.put(row, g, y);
        }
    }
    void operator()(Team& team) {
        Walk walk{team};
        auto each_row = [&](int rows, auto work) {  // by panels: two threads in one cache line cost more than they save
            walk.stage(Rows::panels(rows), [&](int panel) {
                for (int row = panel * PANEL; row < Rows::end(panel, rows); row++) work(row);
            });
        };
        auto add = [&](const Linear& w, const Rows& x) {  // to the residual stream
            walk.stage((m.hidden + CUT - 1) / CUT, [&](int c) {
                product<true>(w, x, c * CUT, CUT, b.x, m.hidden, block_of(w, (c + threads) * CUT));
            });
        };
        for (int i = 0; i < m.layer_count; i++) {
            const Layer& l = m.layers[i];
            each_row(b.rows, [&](int row) { normalise(row, l.attention_norm, input, row); });
            walk.stage(m.heads + 2 * m.kv_heads, [&](int head) { project(l, head); });
            walk.stage(((int)starts.size() - 1) * tiles, [&](int item) {
                const int run = item / tiles, number = item % tiles;
                if (D == 64) attend<64>(l, run, number);
                else if (D == 128) attend<128>(l, run, number);
                else attend<0>(l, run, number);
            });
            each_row(b.rows, [&](int row) { gather(row); });
            add(l.o, context);
            each_row(b.rows, [&](int row) { normalise(row, l.mlp_norm, input, row); });
            walk.stage(m.inner / GROUP, [&](int g) { activate(l, g); });
            add(l.down, inner);
        }
        each_row(b.output_count, [&](int i) { normalise((int)b.outputs[i], m.norm, last, i); });
        walk.stage((m.head.n + CUT - 1) / CUT, [&](int c) {
            product<false>(m.head, last, c * CUT, CUT, b.logits, m.head.n, block_of(m.head, (c + threads) * CUT));
        });
        walk.wait();
    }
};

static Team& team = *new Team;  // never destroyed: helpers may sleep in it when the process ends

// Calls one(item) for every item. One thread needs no team, whose late helpers it would wait for.
template <class Item> static void each(Item* items, int count, int threads, void (*one)(Item&)) {
    if (threads < 2 || count < 2) {
        for (int i = 0; i < count; i++) one(items[i]);
        return;
    }
    auto job = [&](Team& team) {
        Walk walk{team};
        walk.stage(count, [&](int i) { one(items[i]); });
        walk.wait();
    };
    team.run(std::min(threads, count), job);
}

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
    for (int i = 0; i < b.output_count; i++)
        if (b.outputs[i] < 0 || b.outputs[i] >= b.rows) return b.rows + 1;
    Step step(*model, b, threads);
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
    Rows input((int)rows, w->k);
    auto job = [&](Team& team) {
        Walk walk{team};
        walk.stage(Rows::panels((int)rows), [&](int panel) {
            for (int row = panel * PANEL; row < Rows::end(panel, (int)rows); row++)
                for (int g = 0; g < w->k / GROUP; g++) input.put(row, g, x + (size_t)row * w->k + g * GROUP);
        });
        walk.stage((w->n + CUT - 1) / CUT, [&](int c) {
            product<false>(*w, input, c * CUT, CUT, y, w->n, block_of(*w, (c + threads) * CUT));
        });
        walk.wait();
    };
    team.run(threads, job);
}

void cutaway_lead(Lead* leads, int count, int threads) { each(leads, count, threads, find_leading); }
void cutaway_weigh(Mass* masses, int count, int threads) { each(masses, count, threads, weigh); }

const char* cutaway_instructions() {
#if defined(__AVX512VNNI__)
    return "AVX512-VNNI";
#elif defined(__AVXVNNI__)
    return "AVX-VNNI";
#elif defined(__AVX2__)
    return "AVX2";
#else
    return "plain C++";
#endif
}
void cutaway_plain(int on) { plain_only = on != 0; }
}
