// Coreference on CoNLL-2012 with the layer weights drawn a little to their plain average: Table 2's "lambda=0.001", for
// this task.
//
// Data: as in ../elmo.jsonnet.
//
//   allennlp train training_configs/coref/ablations/lambda_0001.jsonnet -s runs/coref_lambda_0001
//
// The paper: no figure for this task; lambda is 0 in ../elmo.jsonnet.
local elmo = import '../../lib/elmo.libsonnet';

(import '../elmo.jsonnet') + elmo.lambda(0.001)
