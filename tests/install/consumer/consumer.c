/* Sums three numbers; the smallest use of the C interface there is. */
#include <stdio.h>
#include <string.h>
#include <tilewright/tilewright.h>

int main(void) {
  const char *text = "program total(n)\ninput X[n] : f32\ny = sum[n] X[n]\noutput y\n";
  float numbers[3] = {1, 2, 3}, sum = 0;
  tw_session *session;
  tw_tensor x, y;
  memset(&x, 0, sizeof x);
  memset(&y, 0, sizeof y);
  x.name = "X", x.dtype = TW_F32, x.ndim = 1, x.shape[0] = 3, x.stride[0] = 1, x.data = numbers;
  y.name = "y", y.dtype = TW_F32, y.data = &sum;
  if (tw_open_memory(text, strlen(text), 1, NULL, 0, &session) || tw_run(session, &x, 1, &y, 1, NULL)) {
    puts(tw_last_error());
    return 1;
  }
  printf("%s: %g\n", tw_version(), sum);
  tw_close(session);
  return 0;
}
