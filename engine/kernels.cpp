// One whole decode step for Llama-like models with int8 weights, behind a plain C interface (see kernels.py).
#include "kernels_step.h"
#include "kernels_survey.h"

// Calls one(item) for every item. One thread needs no team, whose late helpers it would wait for.
template <class Item> static void each(Item* items, int count, int threads, void (*one)(Item&)) {
    if (threads < 2 || count < 2) {
        for (int i = 0; i < count; i++) one(items[i]);
        return;
    }
    auto work = [&](Job& job, Seat& seat) { Walk{job, seat}.stage(count, [&](int i) { one(items[i]); }); };
    team.run(std::min(threads, count), work);
}

// Steps that late helpers may still look at, and one that none does.
static Step& free_step() {
    static auto& steps = *new std::vector<std::unique_ptr<Step>>;
    for (auto& step : steps)
        if (!team.held(*step)) return *step;
    return *steps.emplace_back(std::make_unique<Step>());
}

extern "C" {
// Returns 0, or 1 + the first row that reaches outside the vocabulary, the pool or the tables; then nothing was written.
int cutaway_step(const Model* model, const Batch* batch, int threads) {
    const Batch& b = *batch;
    for (int row = 0; row < b.rows; row++) {
        const int64_t pages = (b.lengths[row] + model->page_size - 1) / model->page_size;
        bool good = b.ids[row] >= 0 && b.ids[row] < model->vocabulary && b.lengths[row] > 0 && pages <= b.pages;
        good = good && b.positions[row] >= 0 && b.positions[row] < model->positions;
        good = good && b.slots[row] >= 0 && b.slots[row] < model->slots;
        for (int64_t p = 0; good && p < pages; p++) {
            const int64_t page = b.page_table[(size_t)row * b.pages + p];
            good = page >= 0 && (page + 1) * model->page_size <= model->slots;
        }
        if (!good) return row + 1;
    }
    for (int i = 0; i < b.output_count; i++)
        if (b.outputs[i] < 0 || b.outputs[i] >= b.rows) return b.rows + 1;
    const std::lock_guard<std::mutex> hold(team.one);
    Step& step = free_step();
    step.prepare(*model, b, threads);
    team.lead(step, threads - 1);
    return 0;
}

// Fills data and scales of `to` from float32 weights [n, k].
void cutaway_pack(const Linear* to, const float* weights, int threads) {
    auto work = [&](Job& job, Seat& seat) {
        Walk{job, seat}.stage((to->n + BLOCK - 1) / BLOCK, [&](int block) { pack(*to, block, weights); });
    };
    team.run(threads, work);
}

void cutaway_linear(const Linear* w, const float* x, float* y, int64_t rows, int threads) {
    Rows input;
    input.shape((int)rows, w->k);
    auto work = [&](Job& job, Seat& seat) {
        Walk walk{job, seat};
        walk.stage(Rows::panels((int)rows), [&](int panel) {
            for (int row = panel * PANEL; row < Rows::end(panel, (int)rows); row++)
                for (int g = 0; g < w->k / GROUP; g++) input.put(row, g, x + (size_t)row * w->k + g * GROUP);
        });
        walk.stage((w->n + CUT - 1) / CUT, [&](int c) {
            product<false>(*w, input, c * CUT, CUT, y, w->n, block_of(*w, (c + threads) * CUT));
        });
    };
    team.run(threads, work);
}

void cutaway_look(Look* looks, int count, int threads) { each(looks, count, threads, look); }

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

// Waits until no helper looks at the memory of a step: before a model's is freed.
void cutaway_settle() {
    const std::lock_guard<std::mutex> hold(team.one);
    for (auto& seat : team.helpers)
        for (int spins = 0; seat->job.load();) relax(spins);
}
// For tests: helpers sleep this long over every chunk. Returns how many chunks were taken over from late ones so far.
int64_t cutaway_stall(int microseconds) {
    stall = microseconds;
    return taken_over;
}
}
