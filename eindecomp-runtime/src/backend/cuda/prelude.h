// CUDA C that is C++ too: a twin defines TWIN and its own GLOBAL, SHARED and DEVICE first.
typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;
#ifndef TWIN
#define GLOBAL(T) T*
#define SHARED(T, name, n) __shared__ T name[n]
#define DEVICE inline __device__
DEVICE float float_of_bits(u32 x) { return __uint_as_float(x); }
DEVICE u32 bits_of_float(float x) { return __float_as_uint(x); }
DEVICE double double_of_bits(u64 x) { return __longlong_as_double((i64)x); }
DEVICE float from_f16(u16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y; }
DEVICE u16 to_f16(float x) { u16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
DEVICE void fault(u64* record, i64 site, i64 operand, i64 axis, i64 index) {
    if (atomicCAS(record, 0ull, (u64)(site + 1)) == 0ull) {
        record[1] = ((u64)operand << 32) | (u64)axis;
        record[2] = (u64)index;
    }
}
#endif
DEVICE float from_bf16(u16 x) { return float_of_bits((u32)x << 16); }
DEVICE u16 to_bf16(float x) {
    const u32 bits = bits_of_float(x);
    if (x != x) return (u16)(bits >> 16 | 0x40);
    return (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
// To f32 such that rounding it to a shorter type rounds the f64 once.
DEVICE float to_odd(double x) {
    const float y = (float)x;
    if (x != x || (double)y == x) return y;
    u32 bits = bits_of_float(y);
    if ((y < 0 ? -(double)y : (double)y) > (x < 0 ? -x : x)) bits -= 1;
    return float_of_bits(bits | 1);
}
DEVICE float to_odd(i64 x) {
    const float y = (float)x;
    if (x < (1ll << 24) && x > -(1ll << 24)) return y;
    return to_odd((double)x);
}
template <typename T> DEVICE i64 saturate(T x, i64 lo, i64 hi) {
    if (x != x) return 0;
    return x <= (T)lo ? lo : x >= (T)hi ? hi : (i64)x;
}
DEVICE i64 floor_div(i64 a, i64 b) {
    if (b == 0) return 0;
    if (b == -1) return (i64)(0 - (u64)a);
    const i64 q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
DEVICE i64 floor_rem(i64 a, i64 b) {
    if (b == 0 || b == -1) return 0;
    const i64 r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
