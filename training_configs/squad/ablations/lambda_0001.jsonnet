// BiDAF with self-attention on SQuAD with layer weights free to vary: column "lambda=0.001" of Table 2.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/squad/ablations/lambda_0001.jsonnet -s runs/squad_lambda_0001
//
// The paper: dev F1 85.2. ../elmo.jsonnet has lambda 0.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.l2(0.001)
