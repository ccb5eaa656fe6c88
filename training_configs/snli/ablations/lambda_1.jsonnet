// ESIM on SNLI with layer weights held close to their plain average: column "lambda=1" of Table 2.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/snli/ablations/lambda_1.jsonnet -s runs/snli_lambda_1
//
// The paper: dev accuracy 89.3, against 89.5 with lambda 0.001.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.lambda(1.0)
