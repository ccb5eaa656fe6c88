// Semantic role labeling on OntoNotes with layer weights held close to their plain average: column "lambda=1" of
// Table 2.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/srl/ablations/lambda_1.jsonnet -s runs/srl_lambda_1
//
// The paper: dev F1 84.6, against 84.8 with lambda 0.001.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.lambda(1.0)
