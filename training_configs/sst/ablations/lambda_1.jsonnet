// Layer weights held near their average: column "lambda = 1" of Table 2. The paper has no figure for SST-5.
//
// Data and variables: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/sst/ablations/lambda_1.jsonnet -s runs/sst_lambda_1
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.lambda(1.0)
