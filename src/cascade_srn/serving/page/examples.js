/* Three short abstracts to start from, written for this page. */

export const EXAMPLES = [
  {
    title: "Dependency parsing",
    short: "Parsing",
    text: `We present a transition-based dependency parser for languages with small treebanks. \
A multilingual encoder provides contextual word embeddings, and self-training on raw text adapts the encoder to the \
target language. We evaluate the parser on twelve treebanks of the Universal Dependencies corpus. It outperforms a \
graph-based parser by 2.4 points in labelled attachment score. Part-of-speech tags, a common feature in dependency \
parsing, no longer improve accuracy once the encoder has been adapted.`,
  },
  {
    title: "Event coreference",
    short: "Events",
    text: `Cross-document event coreference resolution is difficult because mentions of one event rarely share words. \
We propose a graph attention network that links event mentions through their arguments. The network is pretrained on \
news articles and fine-tuned on the ECB+ corpus. Compared with a pairwise classifier, our method improves CoNLL F1 by \
3.1 points and uses half the memory. We also release an annotation tool for coreference chains.`,
  },
  {
    title: "Speech translation",
    short: "Speech",
    text: `End-to-end speech translation avoids the errors that a pipeline of speech recognition and machine \
translation accumulates. We train a Transformer on audiobooks with knowledge distillation from a text translation \
model. A convolutional layer shortens the acoustic features, which reduces training time by a third. On the MuST-C \
corpus, our system achieves higher BLEU scores than the pipeline for German and Spanish.`,
  },
];
