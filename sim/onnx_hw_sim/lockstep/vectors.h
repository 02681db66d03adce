// Words of a circuit in several runs at once: element k of a vector belongs to run k.
//
// A word of up to 32 bits is a V, one of up to 64 bits a D during a computation, a wider one a W<n> of n times 32 bits.
// Bits above a word are 0 wherever the word is stored.
#pragma once
#include <cstdint>
#include <cstring>

#ifndef RUNS
#define RUNS 4
#endif

#define EACH_RUN for (int k = 0; k < RUNS; k++)

typedef uint32_t V __attribute__((vector_size(4 * RUNS)));
typedef int32_t S __attribute__((vector_size(4 * RUNS)));
typedef uint64_t D __attribute__((vector_size(8 * RUNS)));
typedef int64_t SD __attribute__((vector_size(8 * RUNS)));

template <int n>
struct W {
    V w[n];
};

inline V all(uint32_t x) { return V{} + x; }
inline D all64(uint64_t x) { return D{} + x; }
inline V bit(S truth) { return (V)truth & 1u; }  // from a comparison
inline V bit64(SD truth) { return __builtin_convertvector((D)truth & 1ull, V); }
inline V spread(V x) { return 0u - x; }  // copies a bit to all 32
inline V choose(V bit, V yes, V no) { return (S)bit != 0 ? yes : no; }
inline D join(V low, V high) { return __builtin_convertvector(low, D) | __builtin_convertvector(high, D) << 32; }
inline D join(V low) { return __builtin_convertvector(low, D); }
inline V low(D x) { return __builtin_convertvector(x, V); }
inline V high(D x) { return __builtin_convertvector(x >> 32, V); }

// Sign-extended numbers of 32 - shift or 64 - shift bits.
inline V widen(V x, int shift) { return (V)((S)(x << shift) >> shift); }
inline D widen(D x, int shift) { return (D)((SD)(x << shift) >> shift); }

inline V shift_right(V x, V by) { return by < 32u ? x >> (by & 31u) : V{}; }
inline V shift_left(V x, V by) { return by < 32u ? x << (by & 31u) : V{}; }
inline V shift_right_signed(V x, V by) { return (V)((S)x >> (S)(by < 31u ? by : all(31))); }
inline D shift_right(D x, V by) {
    const D wide = join(by);
    return wide < 64u ? x >> (wide & 63u) : D{};
}
inline D shift_left(D x, V by) {
    const D wide = join(by);
    return wide < 64u ? x << (wide & 63u) : D{};
}
inline D shift_right_signed(D x, V by) {
    const D wide = join(by);
    return (D)((SD)x >> (SD)(wide < 63u ? wide : all64(63)));
}

inline V parity(V x) {
    for (int by = 16; by; by >>= 1) x ^= x >> by;
    return x & 1u;
}

inline bool any(V x) {
    uint64_t part[RUNS / 2], all = 0;
    std::memcpy(part, &x, sizeof part);
    for (uint64_t p : part) all |= p;
    return all;
}

template <int n>
W<n> operator+(const W<n>& a, const W<n>& b) {
    W<n> sum;
    D carry{};
    for (int i = 0; i < n; i++) {
        carry += join(a.w[i]) + join(b.w[i]);
        sum.w[i] = low(carry);
        carry >>= 32;
    }
    return sum;
}

template <int n>
W<n> operator-(const W<n>& a, const W<n>& b) {
    W<n> difference;
    SD borrow{};
    for (int i = 0; i < n; i++) {
        borrow += (SD)join(a.w[i]) - (SD)join(b.w[i]);
        difference.w[i] = low((D)borrow);
        borrow >>= 32;
    }
    return difference;
}

template <int n>
W<n> operator*(const W<n>& a, const W<n>& b) {
    W<n> product{};
    for (int i = 0; i < n; i++) {
        D carry{};
        for (int j = 0; i + j < n; j++) {
            carry += join(a.w[i]) * join(b.w[j]) + join(product.w[i + j]);
            product.w[i + j] = low(carry);
            carry >>= 32;
        }
    }
    return product;
}

// Returns whether a < b, both unsigned.
template <int n>
V less(const W<n>& a, const W<n>& b) {
    V result{};
    for (int i = 0; i < n; i++) result = choose(bit(a.w[i] == b.w[i]), result, bit(a.w[i] < b.w[i]));
    return result;
}

// Returns 32 bits of a word from bit `at` on; beyond its end there are zeros, or ones if `sign` is 1.
template <int n>
V bits_from(const W<n>& x, V at, V sign) {
    V result;
    const V fill = spread(sign);
    EACH_RUN {
        const uint64_t place = uint64_t{at[k]} / 32, shift = at[k] % 32;
        const uint64_t first = place < n ? x.w[place][k] : fill[k], second = place + 1 < n ? x.w[place + 1][k] : fill[k];
        result[k] = static_cast<uint32_t>((first | second << 32) >> shift);
    }
    return result;
}

template <int n>
W<n> shift_left(const W<n>& x, V by) {
    W<n> result{};
    EACH_RUN {
        const int64_t place = by[k] / 32, shift = by[k] % 32;
        for (int64_t i = place; i < n; i++) {
            const uint64_t below = i > place ? x.w[i - place - 1][k] : 0;
            result.w[i][k] = static_cast<uint32_t>((uint64_t{x.w[i - place][k]} << 32 | below) << shift >> 32);
        }
    }
    return result;
}

// Words of memories that are never written are the same in all runs.
inline V look_up(const uint32_t* table, V place) {
    V result;
    EACH_RUN result[k] = table[place[k]];
    return result;
}
inline V look_up(const V* memory, V place) {
    V result;
    EACH_RUN result[k] = reinterpret_cast<const uint32_t*>(memory + place[k])[k];
    return result;
}
inline void write(V* memory, V place, V enable, V data) {
    EACH_RUN {
        uint32_t* word = reinterpret_cast<uint32_t*>(memory + place[k]) + k;
        *word = (*word & ~enable[k]) | (data[k] & enable[k]);
    }
}
