// Semantic role labeling on OntoNotes with layer weights free to vary, which is what ../elmo.jsonnet has: column
// "lambda=0.001" of Table 2.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/srl/ablations/lambda_0001.jsonnet -s runs/srl_lambda_0001
//
// The paper: dev F1 84.8.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.lambda(0.001)
