// Coreference on CoNLL-2012 with layer weights held close to their plain average: Table 2's "lambda=1", for this task.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/coref/ablations/lambda_1.jsonnet -s runs/coref_lambda_1
//
// The paper: no figure for this task; lambda is 0 in ../elmo.jsonnet.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.lambda(1.0)
