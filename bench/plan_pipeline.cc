// Times of the pipeline solver over all reference profiles and machine levels, beside what the original optimizer took
// where its runs are recorded. Prints one JSON object.
//
//   bench_plan_pipeline DATA_FOLDER       the folder that holds golden/ and pipedream/profiles/
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
