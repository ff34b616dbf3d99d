// The header must be good for C and C++.
#include "consumer.c"
