// ESIM on SNLI with layer weights free to vary: column "lambda=0.001" of Table 2, which is what ../elmo.jsonnet has.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/snli/ablations/lambda_0001.jsonnet -s runs/snli_lambda_0001
//
// The paper: dev accuracy 89.5.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.lambda(0.001)
