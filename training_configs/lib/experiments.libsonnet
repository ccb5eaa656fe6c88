// Every task's experiments by name, for what chooses one by a variable.
{
  coref: {
    baseline: import '../coref/baseline.jsonnet',
    elmo: import '../coref/elmo.jsonnet',
    elmo_finetuned: import '../coref/elmo_finetuned.jsonnet',
  },
  ner: {
    baseline: import '../ner/baseline.jsonnet',
    elmo: import '../ner/elmo.jsonnet',
    elmo_finetuned: import '../ner/elmo_finetuned.jsonnet',
  },
  snli: {
    baseline: import '../snli/baseline.jsonnet',
    elmo: import '../snli/elmo.jsonnet',
    elmo_finetuned: import '../snli/elmo_finetuned.jsonnet',
  },
  squad: {
    baseline: import '../squad/baseline.jsonnet',
    elmo: import '../squad/elmo.jsonnet',
    elmo_finetuned: import '../squad/elmo_finetuned.jsonnet',
  },
  srl: {
    baseline: import '../srl/baseline.jsonnet',
    elmo: import '../srl/elmo.jsonnet',
    elmo_finetuned: import '../srl/elmo_finetuned.jsonnet',
  },
  sst: {
    baseline: import '../sst/baseline.jsonnet',
    elmo: import '../sst/elmo.jsonnet',
    elmo_finetuned: import '../sst/elmo_finetuned.jsonnet',
  },
}
