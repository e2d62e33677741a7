/* Tells of a call; the generated wrappers of this core call it. */
#ifndef HW_TRACE_H
#define HW_TRACE_H

void hw_trace(const char *name);

#endif
