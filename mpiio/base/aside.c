/* Saves all registers, those of vectors too, and calls a function. */
#include "base/aside.h"

#ifdef __x86_64__

#include <cpuid.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>

#include "base/engine.h"
#include "real.h"
#include "base/signals.h"

#define RED_ZONE_BYTES 128

/* The stack of the function below, from its lowest address on. */
struct frame {
	uint64_t r15, r14, r13, r12, r11, r10, r9, r8, rdi, rsi, rbp, rbx, rdx, rcx, rax, flags;
	/* Below the program's red zone: the address where the thread resumes. */
	uint64_t *resume_at;
};

/* What a handler hands over. Signals are blocked until the thread has read it. */
static __thread struct {
	struct hwio_aside aside;
	uint64_t resume_at, *place;
	sigset_t mask;
} handed_over __attribute__((tls_model("initial-exec")));

/* Size of what XSAVE saves. */
__attribute__((visibility("hidden"))) uint64_t hwio_aside_state_bytes;

__attribute__((visibility("hidden"))) void hwio_aside_enter(void);
__attribute__((visibility("hidden"), used)) void hwio_aside_run(struct frame *frame);

/* Entered with the stack pointer at frame.resume_at. XSAVE needs a header of zeros. */
__asm__(".text\n"
	".globl hwio_aside_enter\n"
	".hidden hwio_aside_enter\n"
	".type hwio_aside_enter, @function\n"
	"hwio_aside_enter:\n"
	"	pushfq\n"
	"	cld\n"
	"	push %rax\n	push %rcx\n	push %rdx\n	push %rbx\n	push %rbp\n	push %rsi\n	push %rdi\n"
	"	push %r8\n	push %r9\n	push %r10\n	push %r11\n"
	"	push %r12\n	push %r13\n	push %r14\n	push %r15\n"
	"	mov %rsp, %rbp\n"
	"	mov %rsp, %rdi\n"
	"	sub hwio_aside_state_bytes(%rip), %rsp\n"
	"	and $-64, %rsp\n"
	"	xor %eax, %eax\n"
	"	mov %rax, 512(%rsp)\n	mov %rax, 520(%rsp)\n	mov %rax, 528(%rsp)\n	mov %rax, 536(%rsp)\n"
	"	mov %rax, 544(%rsp)\n	mov %rax, 552(%rsp)\n	mov %rax, 560(%rsp)\n	mov %rax, 568(%rsp)\n"
	"	mov $-1, %eax\n"
	"	mov $-1, %edx\n"
	"	xsave64 (%rsp)\n"
	"	call hwio_aside_run\n"
	"	mov $-1, %eax\n"
	"	mov $-1, %edx\n"
	"	xrstor64 (%rsp)\n"
	"	mov %rbp, %rsp\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n"
	"	pop %r11\n	pop %r10\n	pop %r9\n	pop %r8\n"
	"	pop %rdi\n	pop %rsi\n	pop %rbp\n	pop %rbx\n	pop %rdx\n	pop %rcx\n	pop %rax\n"
	"	popfq\n"
	"	pop %rsp\n"
	"	ret $128\n"
	".size hwio_aside_enter, .-hwio_aside_enter\n");

void hwio_aside_run(struct frame *frame)
{
	struct hwio_aside aside = handed_over.aside;
	sigset_t mask = handed_over.mask;
	int saved = errno;

	frame->resume_at = handed_over.place;
	*frame->resume_at = handed_over.resume_at;
	if (aside.is_call)
		hwio_libc.pthread_sigmask(SIG_SETMASK, &mask, NULL);
	aside.work(&aside);
	if (aside.is_call)
		frame->rax = (uint64_t)aside.result;
	else
		hwio_libc.pthread_sigmask(SIG_SETMASK, &mask, NULL);
	errno = saved;
}

/* A return without a call is an error where the processor has a shadow stack. */
static bool has_shadow_stack(void)
{
	uint64_t pointer = 0;
	__asm__ volatile("rdsspq %0" : "+r"(pointer));
	return pointer != 0;
}

static bool is_possible(void)
{
	unsigned int a, b, c, d;
	if (hwio_aside_state_bytes == 0) {
		bool has_xsave = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_OSXSAVE);
		if (!has_xsave || !__get_cpuid_count(0xd, 0, &a, &b, &c, &d) || b == 0)
			return false;
		hwio_aside_state_bytes = b;
	}
	return !has_shadow_stack();
}

/* The top of the alternate stack, or 0. The program's stack may be too small for messages, as those of coroutines are.
 * Nested signals continue below, unless the kernel takes the stack back for each. */
static uint64_t alternate_stack(const stack_t *stack, uint64_t current)
{
	const unsigned int autodisarm = 1U << 31;
	uint64_t low = (uint64_t)(uintptr_t)stack->ss_sp, high = low + stack->ss_size;
	bool is_good = stack->ss_size >= HWIO_ASIDE_STACK_BYTES && !((unsigned int)stack->ss_flags & autodisarm) &&
		(current <= low || current > high);
	return is_good ? high & ~(uint64_t)15 : 0;
}

bool hwio_aside(ucontext_t *context, const struct hwio_aside *aside)
{
	greg_t *registers = context->uc_mcontext.gregs;
	if (!is_possible())
		return false;
	uint64_t current = (uint64_t)registers[REG_RSP], place = current - RED_ZONE_BYTES - sizeof(uint64_t);
	/* A call runs the program's handlers, which may leave it for good. */
	uint64_t top = aside->is_call ? 0 : alternate_stack(&context->uc_stack, current);
	handed_over.aside = *aside;
	handed_over.resume_at = (uint64_t)registers[REG_RIP];
	handed_over.place = (uint64_t *)(uintptr_t)place;
	handed_over.mask = context->uc_sigmask;
	hwio_signals_block(&context->uc_sigmask);
	registers[REG_RSP] = (greg_t)((top ? top : place) - sizeof(uint64_t));
	registers[REG_RIP] = (greg_t)(uintptr_t)hwio_aside_enter;
	return true;
}

#else

bool hwio_aside(ucontext_t *context, const struct hwio_aside *aside)
{
	(void)context;
	(void)aside;
	return false;
}

#endif
