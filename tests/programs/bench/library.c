/* One of many libraries of about 100 KB: functions, constant data, and pointers to relocate.
 * NUMBER is its number, NEXT (if defined) the number of a library that it calls. */
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define FUNCTION(n) JOIN(JOIN(JOIN(f, NUMBER), _), n)

static const char data[84000] = {NUMBER & 127, 1, 2, 3};
#define BODY(n) \
	int FUNCTION(n)(int x); \
	int FUNCTION(n)(int x) \
	{ \
		for (int i = 0; i < x; i++) \
			x += data[(i * 31 + n) % sizeof data]; \
		return x; \
	}
#define BODIES(n) BODY(n##0) BODY(n##1) BODY(n##2) BODY(n##3) BODY(n##4) BODY(n##5) BODY(n##6) BODY(n##7)
/* clang-format off */
BODIES(1) BODIES(2) BODIES(3) BODIES(4)
	/* clang-format on */

	int (*const JOIN(table, NUMBER)[])(int) = {FUNCTION(10), FUNCTION(21), FUNCTION(32), FUNCTION(43)};
#ifdef NEXT
int JOIN(JOIN(f, NEXT), _10)(int x);
int (*const JOIN(next, NUMBER))(int) = JOIN(JOIN(f, NEXT), _10);
#endif
