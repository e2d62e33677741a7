/* Reasons in words: of several, each counts. */
#include "internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void hw_add_reason(char list[HW_REASON_BYTES], const char *format, ...)
{
	size_t length = strnlen(list, HW_REASON_BYTES - 1);
	va_list values;

	if (length && length + sizeof HW_BETWEEN_REASONS < HW_REASON_BYTES) {
		memcpy(list + length, HW_BETWEEN_REASONS, sizeof HW_BETWEEN_REASONS);
		length += sizeof HW_BETWEEN_REASONS - 1;
	}
	va_start(values, format);
	vsnprintf(list + length, HW_REASON_BYTES - length, format, values);
	va_end(values);
}
