// Threads for the kernels: one job at a time, cut into numbered chunks that whoever is awake takes.
//
// A job is a row of stages; no chunk of a stage starts before every chunk of the earlier stages is done. Helpers may
// come late or not at all: the caller never waits for one to wake, which on a virtual machine costs 50 to 100 us.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

static inline void relax(int& spins) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    if (++spins > 2000) std::this_thread::yield();  // the one we wait for may need this very core
}

struct Team {
    std::atomic<uint32_t> epoch{0};  // jobs so far: what sleeping helpers watch
    std::atomic<int> active{0};      // helpers that look at the job
    std::atomic<bool> open{false};   // whether there is one to join
    alignas(64) std::atomic<int64_t> next{0};  // chunk to take
    alignas(64) std::atomic<int64_t> done{0};  // chunks finished
    void (*body)(Team&, void*) = nullptr;
    void* job = nullptr;
    int width = 0;  // helpers that may join
    std::vector<std::thread> helpers;
    std::mutex one;  // job at a time, whoever calls

    void help(int index) {
        for (uint32_t seen = 0;; epoch.wait(seen)) {
            seen = epoch.load();
            active.fetch_add(1);
            if (open.load() && index < width) body(*this, job);
            active.fetch_sub(1);
        }
    }
    // Calls work(team) here and on up to threads - 1 helpers; every call walks the same stages and waits for the last.
    template <class Job> void run(int threads, Job& work) {
        const std::lock_guard<std::mutex> hold(one);
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

struct Walk {  // one thread's way through the stages of a job
    Team& team;
    int64_t base = 0, ticket = team.next.fetch_add(1);

    template <class Chunk> void stage(int count, Chunk chunk) {
        while (ticket < base + count) {
            wait();
            chunk((int)(ticket - base));
            team.done.fetch_add(1, std::memory_order_release);
            ticket = team.next.fetch_add(1);
        }
        base += count;
    }
    void wait() const {  // until every stage so far is done
        for (int spins = 0; team.done.load(std::memory_order_acquire) < base;) relax(spins);
    }
};
