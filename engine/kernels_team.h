// Threads for the kernels: one job at a time, cut into numbered chunks that whoever is awake takes.
//
// A job is a row of stages; no chunk of a stage starts before every chunk of the earlier stages is done. The thread
// that has a job to do leads it, helpers may come late or not at all: the leader never waits for one to wake, which on
// a virtual machine costs 50 to 100 us.
//
// Nor does it wait for one that lost its core in the middle of a chunk, which costs milliseconds where another program
// keeps that core busy: after a short while the leader takes the chunk over and computes it too. So a helper computes
// into memory of its own (Seat) and gives the result away only if the chunk is still its own; else it is dropped.
// Until then a late helper only reads: weights, keys and values, and the job's memory, in which later stages may have
// written by then. It may compute nonsense from that, but what it finds its way by, tables and counts, is written once
// before the job starts. None of it is freed or used for another job while a helper looks at it (Team::held).
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>
#include "kernels_int8.h"
#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

typedef std::chrono::steady_clock Clock;

static inline void relax(int& spins) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    if (++spins > 2000) std::this_thread::yield();  // the one we wait for may need this very core
}

struct Seat;

struct Job {
    alignas(64) std::atomic<int64_t> next{0};  // chunk to take
    alignas(64) std::atomic<int64_t> done{0};  // chunks finished
    int width = 0;                             // helpers that may join
    virtual void walk(Seat& seat) = 0;         // every thread walks the same stages
};

constexpr int64_t NONE = -1, TAKEN = -2, GIVING = -3;

struct alignas(64) Seat {  // one thread's place
    const bool leads;
    std::atomic<Job*> job{nullptr};      // what a helper looks at
    std::atomic<int64_t> chunk{NONE};    // what it computes; TAKEN: the leader does; GIVING: it is done, being copied
    Buffer<float> floats;                // the thread's own memory
    Rows rows;

    explicit Seat(bool leads) : leads(leads) {}
};

static std::atomic<int64_t> taken_over{0};  // chunks, since the library was loaded
static std::atomic<int> stall{0};           // for tests: microseconds that helpers sleep over a chunk; none stays away

struct Team {
    std::atomic<uint32_t> epoch{0};  // jobs so far: what sleeping helpers watch
    std::atomic<Job*> current{nullptr};
    std::vector<std::unique_ptr<Seat>> helpers;
    std::vector<std::thread> threads;
    Seat leader{true};
    std::mutex one;  // job at a time, whoever calls
    int apart = -1;  // core that helpers are kept from

    void help(Seat& seat, int index) {
        for (uint32_t seen = 0;; epoch.wait(seen)) {
            seen = epoch.load();
            Job* job = current.load();
            seat.job.store(job);  // held first, then looked at again: a job that was over by then may be gone
            if (job && current.load() == job && index < job->width) job->walk(seat);
            seat.job.store(nullptr);
        }
    }
    bool held(const Job& job) const {
        return std::any_of(helpers.begin(), helpers.end(), [&](auto& seat) { return seat->job.load() == &job; });
    }
    bool all_at_work(int width) const {
        const auto begin = helpers.begin();
        return std::all_of(begin, begin + width, [](auto& seat) { return seat->chunk.load() != NONE; });
    }
    // Leads a job to its end. The caller holds `one`, and keeps the job as long as it is held.
    void lead(Job& job, int width) {
        job.next = 0, job.done = 0, job.width = width;
        while ((int)helpers.size() < width) {
            const int index = (int)helpers.size();
            helpers.push_back(std::make_unique<Seat>(false));
            threads.emplace_back(&Team::help, this, std::ref(*helpers.back()), index);
            apart = -1;
        }
        if (width > 0) {
            keep_apart();
            current.store(&job);
            epoch.fetch_add(1), epoch.notify_all();
            // Not for ever: a job may have fewer chunks than helpers, and then some have left already.
            for (int spins = 0; stall && spins < 100'000 && !all_at_work(width);) relax(spins);
        }
        job.walk(leader);
        current.store(nullptr);
    }
    void leave(const Job& job) const {  // waits until no helper looks at it
        for (int spins = 0; held(job);) relax(spins);
    }
    // Calls work(seat) here and on up to threads - 1 helpers, and waits for them all.
    template <class Work> void run(int threads, Work& work) {
        struct Whole : Job {
            Work& work;
            explicit Whole(Work& work) : work(work) {}
            void walk(Seat& seat) override { work(*this, seat); }
        } job(work);
        const std::lock_guard<std::mutex> hold(one);
        lead(job, threads - 1);
        leave(job);
    }
    // A helper on the leader's own core would only take its time; and where another program keeps one core busy, the
    // system would put both of ours together on the other one, since that is fair.
    void keep_apart() {
#if defined(__linux__)
        const int core = sched_getcpu();
        cpu_set_t allowed;
        if (core == apart || core < 0 || sched_getaffinity(0, sizeof allowed, &allowed)) return;
        apart = core;
        CPU_CLR(core, &allowed);
        for (std::thread& thread : threads)
            if (CPU_COUNT(&allowed)) pthread_setaffinity_np(thread.native_handle(), sizeof allowed, &allowed);
#endif
    }
};

static Team& team = *new Team;  // never destroyed: helpers may sleep in it when the process ends

struct Walk {  // one thread's way through the stages of a job
    Job& job;
    Seat& seat;
    int64_t first = 0, due = 0;  // chunks of the stages before: taken by number, and to be done
    int64_t ticket = 0;
    std::chrono::nanoseconds longest{0};  // that a chunk of the leader's took, about

    Walk(Job& job, Seat& seat) : job(job), seat(seat) { take(); }
    ~Walk() { seat.chunk.store(NONE); }

    void take() {
        ticket = job.next.fetch_add(1);
        if (!seat.leads) seat.chunk.store(ticket, std::memory_order_release);
    }
    // Waits until every stage before is done. False: meanwhile the leader took this thread's chunk.
    bool await() const {
        for (int spins = 0; job.done.load(std::memory_order_acquire) < due;) {
            relax(spins);
            if (!mine()) return false;
        }
        return mine();
    }
    bool mine() const { return seat.leads || seat.chunk.load(std::memory_order_relaxed) != TAKEN; }
    void finish() { job.done.fetch_add(1, std::memory_order_release); }

    // A stage of `count` chunks. compute(chunk) writes to the seat's memory, if it is a helper's; publish(chunk) copies
    // that to where it belongs.
    template <class Compute, class Publish> void stage(int count, Compute compute, Publish publish) {
        const int64_t end = first + count;
        int computed = 0;
        const auto began = seat.leads ? Clock::now() : Clock::time_point();
        for (; ticket < end; take()) {
            if (!await()) continue;
            const int chunk = (int)(ticket - first);
            if (!seat.leads && stall.load(std::memory_order_relaxed))
                std::this_thread::sleep_for(std::chrono::microseconds(stall.load()));
            compute(chunk);
            int64_t own = ticket;
            if (!seat.leads && !seat.chunk.compare_exchange_strong(own, GIVING)) continue;
            publish(chunk), finish();
            computed++;
        }
        due += count;
        if (seat.leads && job.done.load(std::memory_order_acquire) < due) {
            const auto now = Clock::now();
            if (computed) longest = std::max(longest, (now - began) / computed);
            const auto patience = std::max<std::chrono::nanoseconds>(std::chrono::microseconds(20), 2 * longest);
            for (int spins = 0; job.done.load(std::memory_order_acquire) < due;) {
                relax(spins);
                if (spins % 16 || Clock::now() - now < patience) continue;
                const int64_t late = take_over(end);
                if (late != NONE) compute((int)(late - first)), publish((int)(late - first)), finish();
            }
        }
        first = end;
    }
    // A chunk of this stage that a helper has not given yet. One that is looking at another job holds a chunk of that.
    int64_t take_over(int64_t end) const {
        for (auto& helper : team.helpers) {
            int64_t chunk = helper->chunk.load();
            if (helper->job.load() != &job || chunk < first || chunk >= end) continue;
            if (helper->chunk.compare_exchange_strong(chunk, TAKEN)) return taken_over.fetch_add(1), chunk;
        }
        return NONE;
    }
    // A stage whose chunks are done where they belong, and stay with the thread that took them.
    template <class Chunk> void stage(int count, Chunk chunk) {
        const int64_t end = first + count;
        for (; ticket < end; take()) await(), chunk((int)(ticket - first)), finish();
        first = end, due += count;
        if (seat.leads) await();
    }
    // A stage for the leader alone.
    template <class Work> void alone(Work work) {
        if (seat.leads) await(), work(), finish();
        due++;
    }
};
