/* Hides AVX-512 and AMX from every program that it is loaded into, so that a machine that has them measures what one with AVX2 would
 * do: for x86-64 Linux, where the CPU can make CPUID fault ("cpuid_fault" in /proc/cpuinfo; arch_prctl(2), ARCH_SET_CPUID).
 *
 *     cc -O2 -shared -fPIC -o target/avx2.so benches/peers/avx2.c
 *     LD_PRELOAD=$PWD/target/avx2.so cargo bench --bench peers
 *
 * (The C library has looked at the CPU before; GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW hides it there, too.)
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define ARCH_SET_CPUID 0x1012
#define BIT(n) (1u << (n))

/* The bits of features (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, CPUID): AVX-512 F, DQ, IFMA, PF, ER,
 * CD, BW, VL; VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ; 4VNNIW, 4FMAPS, VP2INTERSECT, FP16, and AMX's; in subleaf 1 AVX-VNNI, BF16,
 * AMX-FP16, and those of AVX10. */
#define EBX_7 (BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31))
#define ECX_7 (BIT(1) | BIT(6) | BIT(11) | BIT(12) | BIT(14))
#define EDX_7 (BIT(2) | BIT(3) | BIT(8) | BIT(22) | BIT(23) | BIT(24) | BIT(25))
#define EAX_7_1 (BIT(4) | BIT(5) | BIT(21))
#define EDX_7_1 (BIT(4) | BIT(5) | BIT(8) | BIT(10) | BIT(19))

static struct sigaction before;

static long faults(int on) {
    return syscall(SYS_arch_prctl, ARCH_SET_CPUID, (unsigned long)!on);
}

static void answer(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *at = (const unsigned char *)registers[REG_RIP];
    if (info->si_code != SI_KERNEL || at[0] != 0x0f || at[1] != 0xa2) {
        /* Another fault, which happens again. */
        sigaction(number, &before, NULL);
        return;
    }
    unsigned leaf = registers[REG_RAX], subleaf = registers[REG_RCX], a, b, c, d;
    faults(0);
    __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(leaf), "c"(subleaf));
    faults(1);
    if (leaf == 7 && subleaf == 0) {
        b &= ~EBX_7;
        c &= ~ECX_7;
        d &= ~EDX_7;
    } else if (leaf == 7 && subleaf == 1) {
        a &= ~EAX_7_1;
        d &= ~EDX_7_1;
    } else if (leaf == 0x1d || leaf == 0x1e || leaf == 0x24) {
        a = b = c = d = 0;
    }
    registers[REG_RAX] = a;
    registers[REG_RBX] = b;
    registers[REG_RCX] = c;
    registers[REG_RDX] = d;
    registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void hide(void) {
    struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    if (sigaction(SIGSEGV, &action, &before) != 0 || faults(1) != 0) {
        perror("avx2.so: this CPU's instructions can't be hidden");
        exit(1);
    }
}
