/* What the program reads through a stream's own buffer, by fscanf, fgets, getline and the like. No call shows these
 * bytes; the stream's position does. */
#ifndef HWIO_PARSED_H
#define HWIO_PARSED_H

#include <stdint.h>
#include <stdio.h>

/* A stream was opened for reading alone. Of more than a few at a time, the rest isn't watched. */
void hwio_parsed_opened(FILE *stream);
/* The stream is read by calls that are seen, or becomes another: it is no longer watched. */
void hwio_parsed_forget(FILE *stream);
/* The stream is about to be closed. */
void hwio_parsed_closing(FILE *stream);
/* Returns how many bytes were read so since the last call that returned any. It examines the streams less and less
 * often while nothing is read. */
uint64_t hwio_parsed_take(void);

#endif
