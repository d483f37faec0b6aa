/* A shared library that is no plugin. */
int banter_test_no_plugin(void);
int banter_test_no_plugin(void) {
  return 1;
}
