/* GCC 12 takes ldtilecfg to read 8 bytes where it reads 64, and drops the stores of the rest: llama.cpp then dies in its
   AMX kernels. With such a compiler, build llama-cpp-python with CXXFLAGS="-include PATH/benches/gcc12_amx.h". */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
#include <immintrin.h>
#undef _tile_loadconfig
#define _tile_loadconfig(config) __asm__ volatile("ldtilecfg %0" ::"m"(*(const char(*)[64])(config)))
#endif
