// BiDAF with self-attention on SQuAD with layer weights held close to their plain average: column "lambda=1" of
// Table 2.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/squad/ablations/lambda_1.jsonnet -s runs/squad_lambda_1
//
// The paper: dev F1 85.0, against 85.2 with lambda 0.001.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.l2(1.0)
