// Layer weights all but free: column "lambda = 0.001" of Table 2, which is elmo.jsonnet's own lambda. The paper has no
// figure for SST-5 here.
//
// Data and variables: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/sst/ablations/lambda_0001.jsonnet -s runs/sst_lambda_0001
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.lambda(0.001)
