/* Vectors, and what Python passes; appliance/numerics/sparse/native/native_calls.py has the same
   records. */

#ifndef SPARSE_PRODUCTS_H
#define SPARSE_PRODUCTS_H

#include <stdint.h>

#define WIDTH 16
#define ALIGNED __attribute__((aligned(64)))

typedef float vector __attribute__((vector_size(4 * WIDTH)));
typedef float unaligned_vector __attribute__((vector_size(4 * WIDTH), aligned(4)));
typedef float quad __attribute__((vector_size(16)));
typedef float unaligned_quad __attribute__((vector_size(16), aligned(4)));

#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define QUAD(a, ...) __builtin_shufflevector(a, a, __VA_ARGS__)

static inline vector load(const float *x) { return *(const unaligned_vector *)x; }
static inline void store(float *x, vector value) { *(unaligned_vector *)x = value; }
static inline quad load_quad(const float *x) { return *(const unaligned_quad *)x; }
static inline void store_quad(float *x, quad value) { *(unaligned_quad *)x = value; }
static inline vector every(float x) { return x - (vector){0}; }
static inline vector fused(vector a, vector b, vector c) { return __builtin_elementwise_fma(a, b, c); }

static inline vector interleave_low(vector a, vector b)
{
	return SHUFFLE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

static inline vector interleave_high(vector a, vector b)
{
	return SHUFFLE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}

/* A matrix by its rows: of row r, values[offsets[r]] and so on, in their columns. */
struct matrix {
	int64_t num_rows, num_columns;
	int64_t is_long; /* whether columns have 32 bits, not 16 */
	const int64_t *offsets;
	const void *columns;
	const float *values;
};

struct product_work {
	int64_t next_piece, next_thread;
	struct matrix matrix;
	const float *x; /* (samples, columns), samples x_stride numbers apart */
	float *y;	/* (samples, rows) */
	float *scratch; /* for each thread, columns times the samples of a block */
	int64_t samples, x_stride, y_stride;
	int64_t accumulate;
};

struct sampled_work {
	int64_t next_piece;
	struct matrix matrix; /* without values */
	const float *dy, *x;
	float *packed_dy, *packed_x;
	float *out; /* as the values lie */
	int64_t samples, dy_stride, x_stride;
	int64_t vectors; /* of a block of samples: 4, or 8 */
	int64_t piece_rows;
	int64_t accumulate;
};

struct transpose_work {
	struct matrix matrix; /* without values */
	int64_t is_long;      /* whether numbers of rows have 32 bits */
	int64_t *offsets;     /* of each column, and the end of the last */
	void *rows;
	uint32_t *sources; /* which value comes there */
};

struct conversion_work {
	struct matrix matrix; /* without values */
	float *values;	      /* in the order of the pattern */
	float *dense;	      /* row by row */
};

struct bitmap_work {
	int64_t num_rows, num_columns, num_values;
	int64_t is_long;
	const uint8_t *bits; /* one for each element, row by row */
	int64_t *offsets;
	void *columns;	  /* room for the values that there ought to be */
	int64_t is_whole; /* set if there were as many */
};

struct check_work {
	struct matrix matrix; /* without values */
	int64_t num_values;
	int64_t are_offsets, are_columns; /* set if they are right */
};

#endif
