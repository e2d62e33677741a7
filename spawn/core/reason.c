/* Lists of reasons, as text. */
#include "internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void hwsp_add_reason(char list[HWSP_REASON_BYTES], const char *format, ...)
{
	size_t length = strnlen(list, HWSP_REASON_BYTES - 1);
	va_list values;

	if (length && length + sizeof HWSP_BETWEEN_REASONS < HWSP_REASON_BYTES) {
		memcpy(list + length, HWSP_BETWEEN_REASONS, sizeof HWSP_BETWEEN_REASONS);
		length += sizeof HWSP_BETWEEN_REASONS - 1;
	}
	va_start(values, format);
	vsnprintf(list + length, HWSP_REASON_BYTES - length, format, values);
	va_end(values);
}
