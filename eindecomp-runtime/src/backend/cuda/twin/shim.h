// CUDA C on one core: threads of a block are fibers that switch at barriers, in random order; every access
// to memory is checked for bounds, alignment, values that were never written, and races.
#define TWIN 1
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#define DEVICE static inline
#define __global__
#define __launch_bounds__(n)
#define GLOBAL(T) twin::Pointer<T>
#define SHARED(T, name, n) twin::Pointer<T> name = twin::shared<T>(n)
#define __syncthreads() twin::barrier(__LINE__)

namespace twin {

struct Dim {
    unsigned x, y, z;
};

// One argument: a number, or memory with which bytes of it hold a value, if that is known.
struct Slot {
    int64_t integer;
    double real;
    unsigned char* data;
    unsigned char* known;
    int64_t bytes;
};

struct User {
    int64_t thread = -1;
    int64_t phase = -1;
};

// Who used an element last.
struct Uses {
    User writer, reader, other;
};

// It starts as a context; later switches, which leave signals alone, are jumps.
struct Fiber {
    ucontext_t context;
    jmp_buf place;
    bool started = false;
    std::unique_ptr<char[]> stack;
    size_t shared = 0;
    int line = 0;
    bool done = true;
};

struct Memory {
    std::vector<unsigned char> data, known;
};

struct Launch {
    Dim thread{}, block{}, threads{}, blocks{};
    int64_t phase = 0, first_phase = 0;
    uint64_t random = 0;
    bool checked = true;
    std::string error;
    std::unordered_map<uintptr_t, Uses> uses;
    std::vector<std::unique_ptr<Memory>> shared;
    jmp_buf scheduler;
    std::vector<Fiber> fibers;
    Fiber* fiber = nullptr;
    size_t taken = 0;
    void (*run)(void*) = nullptr;
    void* of = nullptr;
};

static thread_local Launch* now = nullptr;

static __attribute__((noinline)) void fail(const char* what, int64_t at) {
    if (!now->error.empty()) return;
    char text[200];
    snprintf(text, sizeof text, "%s at byte %lld, by thread %u of block %u", what, (long long)at, now->thread.x, now->block.x);
    now->error = text;
}

static inline uint64_t random_below(uint64_t n) {
    uint64_t x = now->random += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return (x ^ (x >> 31)) % n;
}

static inline int64_t thread_number() {
    return (int64_t)now->block.x * now->threads.x + now->thread.x;
}

// May two uses be at once? Those of one block in one phase, and those of two blocks.
static inline bool clash(const User& user, int64_t thread, int64_t phase) {
    if (user.thread < 0 || user.thread == thread) return false;
    const int64_t size = now->threads.x;
    return user.thread / size != thread / size || user.phase == phase;
}

static __attribute__((noinline)) void use(const void* address, bool write, int64_t at) {
    Uses& uses = now->uses[(uintptr_t)address];
    const int64_t thread = thread_number(), phase = now->phase;
    if (clash(uses.writer, thread, phase)) fail(write ? "two threads write" : "a thread reads what another one writes", at);
    if (write) {
        if (clash(uses.reader, thread, phase) || clash(uses.other, thread, phase)) fail("a thread writes what another one reads", at);
        uses.writer = {thread, phase};
    } else if (uses.reader.thread != thread) {
        uses.other = uses.reader;
        uses.reader = {thread, phase};
    } else {
        uses.reader.phase = phase;
    }
}

template <typename T> struct Element {
    using Value = std::remove_const_t<T>;
    unsigned char *data, *known;
    int64_t at, bytes;

    bool good(bool write) const {
        if (at < 0 || at + (int64_t)sizeof(T) > bytes) {
            fail(write ? "a write out of bounds" : "a read out of bounds", at);
            return false;
        }
        if ((uintptr_t)(data + at) % alignof(Value) != 0) {
            fail("an access that is not aligned", at);
            return false;
        }
        if (now->checked) use(data + at, write, at);
        return true;
    }
    operator Value() const {
        Value value{};
        if (!good(false)) return value;
        if (known) {
            for (size_t n = 0; n < sizeof(T); ++n) {
                if (!known[at + n]) {
                    fail("a read of what was never written", at);
                    break;
                }
            }
        }
        memcpy(&value, data + at, sizeof value);
        return value;
    }
    const Element& operator=(Value value) const {
        static_assert(!std::is_const_v<T>, "a write through a pointer to read");
        if (!good(true)) return *this;
        memcpy(data + at, &value, sizeof value);
        if (known) memset(known + at, 1, sizeof value);
        return *this;
    }
    const Element& operator=(const Element& other) const { return *this = (Value)other; }
};

template <typename T> struct Pointer {
    unsigned char *data, *known;
    int64_t bytes;
    Element<T> operator[](int64_t index) const { return {data, known, index * (int64_t)sizeof(T), bytes}; }
};

template <typename T> Pointer<T> shared(size_t count) {
    size_t& mine = now->fiber ? now->fiber->shared : now->taken;
    const size_t at = mine++;
    if (at == now->shared.size()) {
        auto memory = std::make_unique<Memory>();
        memory->data.assign(count * sizeof(T), 0xa5);
        memory->known.assign(count * sizeof(T), 0);
        now->shared.push_back(std::move(memory));
    }
    Memory& memory = *now->shared[at];
    return {memory.data.data(), memory.known.data(), (int64_t)memory.data.size()};
}

static __attribute__((noinline)) void barrier(int line) {
    now->fiber->line = line;
    if (_setjmp(now->fiber->place) == 0) _longjmp(now->scheduler, 1);
}

static void entry() {
    now->run(now->of);
    now->fiber->done = true;
    now->fiber->line = 0;
    _longjmp(now->scheduler, 1);
}

// Runs a fiber up to its next barrier, or its end.
static __attribute__((noinline)) void resume(Fiber* fiber) {
    if (_setjmp(now->scheduler) != 0) return;
    if (fiber->started) _longjmp(fiber->place, 1);
    fiber->started = true;
    setcontext(&fiber->context);
}

static const size_t STACK = 64 << 10;

static void run_block(unsigned count) {
    Launch& launch = *now;
    if (launch.fibers.size() < count) launch.fibers.resize(count);
    std::vector<unsigned> ready, waiting;
    for (unsigned t = 0; t < count; ++t) {
        Fiber& fiber = launch.fibers[t];
        if (!fiber.stack) fiber.stack.reset(new char[STACK]);
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.get();
        fiber.context.uc_stack.ss_size = STACK;
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, entry, 0);
        fiber.shared = 0;
        fiber.line = 0;
        fiber.done = false;
        fiber.started = false;
        ready.push_back(t);
    }
    while (!ready.empty()) {
        unsigned ended = 0;
        while (!ready.empty()) {
            const size_t next = random_below(ready.size());
            const unsigned t = ready[next];
            ready[next] = ready.back();
            ready.pop_back();
            launch.thread.x = t;
            launch.fiber = &launch.fibers[t];
            resume(launch.fiber);
            if (launch.fiber->done) ++ended;
            else waiting.push_back(t);
        }
        for (unsigned t : waiting) {
            if (ended > 0 || launch.fibers[t].line != launch.fibers[waiting[0]].line) {
                launch.thread.x = t;
                fail("a barrier that not every thread of the block reaches", launch.fibers[t].line);
            }
        }
        if (!launch.error.empty()) {
            launch.fiber = nullptr;
            return;
        }
        ++launch.phase;
        ready.swap(waiting);
    }
    launch.fiber = nullptr;
}

template <typename T> struct Unpack;
template <> struct Unpack<long long> {
    static long long of(const Slot& slot) { return slot.integer; }
};
template <> struct Unpack<double> {
    static double of(const Slot& slot) { return slot.real; }
};
template <typename T> struct Unpack<Pointer<T>> {
    static Pointer<T> of(const Slot& slot) { return {slot.data, slot.known, slot.bytes}; }
};

template <typename... P> struct Call {
    void (*function)(P...);
    const Slot* slots;
    template <size_t... I> void all(std::index_sequence<I...>) { function(Unpack<P>::of(slots[I])...); }
    static void run(void* of) { ((Call*)of)->all(std::make_index_sequence<sizeof...(P)>()); }
};

template <typename... P>
int launch(void (*function)(P...), const Slot* slots, int64_t count, unsigned blocks, unsigned threads, uint64_t seed, int checked, int barriers, char* error, int64_t length) {
    static thread_local std::vector<Fiber> fibers;
    Launch launch;
    launch.fibers.swap(fibers);
    launch.blocks = {blocks, 1, 1};
    launch.threads = {threads, 1, 1};
    launch.random = seed;
    launch.checked = checked != 0;
    Call<P...> call{function, slots};
    launch.run = Call<P...>::run;
    launch.of = &call;
    now = &launch;
    if (count != (int64_t)sizeof...(P)) launch.error = "another number of arguments";
    std::vector<unsigned> order;
    for (unsigned b = 0; b < blocks; ++b) order.push_back(b);
    for (unsigned b = blocks; b > 1; --b) std::swap(order[b - 1], order[random_below(b)]);
    for (unsigned b : order) {
        if (!launch.error.empty()) break;
        launch.block.x = b;
        for (auto& memory : launch.shared) {
            for (size_t n = 0; n < memory->data.size(); ++n) launch.uses.erase((uintptr_t)memory->data.data() + n);
        }
        launch.shared.clear();
        if (barriers) {
            run_block(threads);
            continue;
        }
        for (unsigned t = 0, from = (unsigned)random_below(threads); t < threads; ++t) {
            launch.thread.x = (from + t) % threads;
            launch.taken = 0;
            Call<P...>::run(&call);
        }
    }
    now = nullptr;
    launch.fibers.swap(fibers);
    if (launch.error.empty()) return 0;
    snprintf(error, (size_t)length, "%s", launch.error.c_str());
    return 1;
}

}  // namespace twin

#define threadIdx (twin::now->thread)
#define blockIdx (twin::now->block)
#define blockDim (twin::now->threads)
#define gridDim (twin::now->blocks)

DEVICE float float_of_bits(uint32_t x) {
    float y;
    memcpy(&y, &x, 4);
    return y;
}
DEVICE uint32_t bits_of_float(float x) {
    uint32_t y;
    memcpy(&y, &x, 4);
    return y;
}
DEVICE double double_of_bits(uint64_t x) {
    double y;
    memcpy(&y, &x, 8);
    return y;
}
DEVICE float from_f16(uint16_t x) {
    const int exponent = x >> 10 & 31, mantissa = x & 1023;
    const float sign = x >> 15 ? -1.0f : 1.0f;
    if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexpf((float)mantissa, -24);
    return sign * ldexpf((float)(1024 + mantissa), exponent - 25);
}
DEVICE uint16_t to_f16(float x) {
    const uint16_t sign = (uint16_t)(bits_of_float(x) >> 31 << 15);
    const float size = fabsf(x);
    if (x != x) return (uint16_t)(sign | 0x7e00);
    if (size == 0.0f) return sign;
    if (size >= 65520.0f) return (uint16_t)(sign | 0x7c00);
    int exponent = 0;
    frexpf(size, &exponent);
    // Of the last place: 2^(exponent − 11), at least 2^-24.
    const int last = exponent - 11 < -24 ? -24 : exponent - 11;
    const uint32_t places = (uint32_t)rintf(ldexpf(size, -last));
    if (last == -24) return (uint16_t)(sign | places);
    return (uint16_t)(sign + (((uint32_t)(last + 24) << 10) + places));
}
DEVICE void fault(twin::Pointer<unsigned long long> record, long long site, long long operand, long long axis, long long index) {
    unsigned long long* words = (unsigned long long*)record.data;
    if (words[0] != 0) return;
    words[0] = (unsigned long long)(site + 1);
    words[1] = (unsigned long long)operand << 32 | (unsigned long long)axis;
    words[2] = (unsigned long long)index;
}
