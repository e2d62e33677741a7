/* Tells of a call; the generated wrappers of this core call it. */
#ifndef HWIO_TRACE_H
#define HWIO_TRACE_H

void hwio_trace(const char *name);

#endif
