/* Included in front of every C file of OpenZL (`-include`), which is not changed itself.
 *
 * OpenZL's PivCo coder asks CPUID three times for every stream, and in a virtual machine each time
 * takes a microsecond or more. Here the answer is kept. LMC_SIMD=avx2 takes AVX-512 out of it, as
 * it does for our kernels. For programs of one thread. */
#if __has_include("openzl/shared/cpu.h")
#include <stdlib.h>
#include <string.h>
#include "openzl/shared/cpu.h"

static inline ZL_cpuid_t kept_cpuid(void)
{
    static ZL_cpuid_t kept;
    static int is_known;
    if (!is_known) {
        const char *limit = getenv("LMC_SIMD");
        kept = ZL_cpuid();
        if (limit != NULL && strcmp(limit, "avx2") == 0) {
            kept.f7b &= ~(1U << 16); /* AVX-512F; no kernel goes without it. */
        }
        is_known = 1;
    }
    return kept;
}

#define ZL_cpuid() kept_cpuid()
#endif
