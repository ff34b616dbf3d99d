// What kernels ask of the machine that runs them, and what lanes bring to an instruction that they execute together.
#pragma once

#pragma GCC visibility push(default)
extern "C" {
// The same for all of a thread's life, so that reading them is no access that anybody looks at.
__attribute__((const)) unsigned tw_thread();
__attribute__((const)) unsigned tw_block();
__attribute__((const)) unsigned tw_threads();
__attribute__((const)) unsigned tw_blocks();
__attribute__((const)) unsigned tw_rank();
__attribute__((const)) unsigned char* tw_scratch();
void tw_align(const void*, int bytes);           // it must be a multiple
void tw_meet(int barrier, int threads);          // threads 0: all of the block
void tw_arrive(int barrier, int threads);
void tw_registers(int);                          // this thread goes on with as many
void tw_cluster_meet();
// The lanes of the mask come together (of a warp; lanes = 128: of a group of four): the last one computes for all.
void tw_together(int lanes, unsigned mask, void (*compute)(void* const* lane, unsigned mask), void* mine);
void tw_copy_async(void* to, const void* from, int bytes, int live);
void tw_copies_commit();
void tw_copies_wait(int pending);
unsigned tw_shared_address(const void*);
void* tw_shared(unsigned address);               // of the block whose number in the cluster the address holds
void tw_barrier_make(unsigned, int arrivals);
void tw_barrier_expect(unsigned, int bytes);
void tw_barrier_arrive(unsigned);
unsigned tw_barrier_wait(unsigned, unsigned phase);
void tw_box(unsigned to, const void* map, int dims, const int* at, unsigned barrier, unsigned blocks);
}


// c[16 x 8] += a[16 x k] * b[k x 8] in 16-bit elements: registers of a are rows 0-7 and 8-15 of products 0-7, then of 8-15.
struct tw_product { float* c[4]; unsigned a[4], b[2]; int k; bool brain; };
// d[64 x n] (+)= a[64 x 16] * b[16 x n] of four warps: b in scratch, a there or in registers.
struct tw_group_product { float** d; int n; bool brain, registers, transposed, turned; unsigned a[4]; unsigned long long a_at, b_at; int add; };
extern "C" {
void tw_multiply(void* const* lane, unsigned mask);
void tw_group_multiply(void* const* lane, unsigned mask);
void tw_group_commit(void* const* lane, unsigned mask);
void tw_group_wait(void* const* lane, unsigned mask);      // each brings how many groups may still be under way
}
#pragma GCC visibility pop
