// The language model to go on from, with its softmax and its words: ELMO_BILM is wiki-base, a folder that 'bilm-export
// --softmax' has written, or the archive of a biLM trained here. One that comes without a softmax gets one by
// fit_softmax.jsonnet first.
local settings = import '../lib/settings.libsonnet';
local start = settings.required('ELMO_BILM');

{
  // Its own words, so that its softmax fits.
  vocabulary: { type: 'elmo::bilm', language_model: start },
  model+: {
    bilm: { type: 'pretrained', name: start },
    pretrained_file: start,
  },
}
