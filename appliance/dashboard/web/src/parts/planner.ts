/** What the planner is asked, as its form and the page's address hold it, and models that were published. */

import { size } from "../format";

/** The names of the inputs and their values; those left out are chosen by the planner. */
export type Question = Readonly<Record<string, string>>;

export const NUMBERS = [
  ["layers", "Layers"],
  ["decoder_layers", "Decoder layers (T5)"],
  ["hidden", "Hidden size"],
  ["heads", "Attention heads"],
  ["kv_heads", "Key and value heads"],
  ["head_width", "Head width"],
  ["ffn", "FFN size"],
  ["vocab", "Vocabulary"],
  ["sequence", "Sequence length"],
  ["decoder_sequence", "Target length (T5)"],
  ["systems", "Systems"],
  ["batch", "Global batch"],
  ["micro_batch", "Micro-batch"],
  ["tokens", "Training tokens"],
  ["lora_rank", "LoRA rank"],
] as const;

export const SWITCHES = [
  ["bidirectional", "encoder (BERT)"],
  ["gated", "gated FFN"],
  ["untied", "separate output matrix"],
  ["evaluation", "evaluation only"],
] as const;

/** Inputs that say what the model is; the others say how it is trained. */
const OF_MODEL = ["layers", "decoder_layers", "hidden", "heads", "kv_heads", "head_width", "ffn", "vocab", "sequence", "decoder_sequence", "bidirectional", "gated", "untied"];
const ALL = [...OF_MODEL, "systems", "batch", "micro_batch", "tokens", "lora_rank", "evaluation", "sparsity", "machine"];

export interface Published {
  name: string;
  /** Where its dimensions are printed. */
  source: string;
  inputs: Question;
}

const decoder = (layers: number, hidden: number, heads: number, ffn: number, vocab: number, sequence: number, more: Question = {}): Question => ({
  layers: String(layers),
  hidden: String(hidden),
  heads: String(heads),
  ffn: String(ffn),
  vocab: String(vocab),
  sequence: String(sequence),
  ...more,
});

const GPT = "Dey et al., Cerebras-GPT, 2023, arXiv 2304.03208";
const LLAMA = "Touvron et al., Llama 2, 2023, arXiv 2307.09288";
const LLAMA_3 = "Grattafiori et al., The Llama 3 Herd of Models, 2024, arXiv 2407.21783";
const ALONE: Question = { untied: "true" };
const GATED: Question = { gated: "true", untied: "true" };

export const PUBLISHED: readonly Published[] = [
  { name: "Cerebras-GPT 111M", source: GPT, inputs: decoder(10, 768, 12, 3072, 50257, 2048) },
  { name: "Cerebras-GPT 1.3B", source: GPT, inputs: decoder(24, 2048, 16, 8192, 50257, 2048) },
  { name: "Cerebras-GPT 6.7B", source: GPT, inputs: decoder(32, 4096, 32, 16384, 50257, 2048) },
  { name: "Cerebras-GPT 13B", source: GPT, inputs: decoder(40, 5120, 40, 20480, 50257, 2048) },
  { name: "GPT-J 6B", source: "Wang and Komatsuzaki, GPT-J-6B, 2021", inputs: decoder(28, 4096, 16, 16384, 50400, 2048, ALONE) },
  { name: "GPT-NeoX 20B", source: "Black et al., GPT-NeoX-20B, 2022, arXiv 2204.06745", inputs: decoder(44, 6144, 64, 24576, 50432, 2048, ALONE) },
  { name: "GPT-3 175B", source: "Brown et al., 2020, arXiv 2005.14165", inputs: decoder(96, 12288, 96, 49152, 50257, 2048) },
  { name: "Llama 2 7B", source: LLAMA, inputs: decoder(32, 4096, 32, 11008, 32000, 4096, GATED) },
  { name: "Llama 2 70B", source: LLAMA, inputs: decoder(80, 8192, 64, 28672, 32000, 4096, { ...GATED, kv_heads: "8" }) },
  { name: "Llama 3 8B", source: LLAMA_3, inputs: decoder(32, 4096, 32, 14336, 128256, 8192, { ...GATED, kv_heads: "8" }) },
  { name: "BERT large", source: "Devlin et al., 2018, arXiv 1810.04805", inputs: decoder(24, 1024, 16, 4096, 30522, 512, { bidirectional: "true" }) },
  {
    name: "T5 11B",
    source: "Raffel et al., 2019, arXiv 1910.10683",
    inputs: decoder(24, 1024, 128, 65536, 32128, 512, { head_width: "128", decoder_layers: "24", decoder_sequence: "114" }),
  },
];

/** What a page that was opened without a question shows. */
export const FIRST: Question = { ...PUBLISHED[1]!.inputs, systems: "16", machine: "cs2" };

/** The question in an address; the first one if the address has none. */
export function questionOf(search: string): Question {
  const query = new URLSearchParams(search);
  const asked = Object.fromEntries(ALL.flatMap((name) => (query.get(name)?.trim() ? [[name, query.get(name)!.trim()]] : [])));
  return Object.keys(asked).length ? asked : FIRST;
}

/** A question as the query of an address, always in the same order. */
export function searchOf(question: Question): string {
  const query = new URLSearchParams();
  for (const name of ALL) if (question[name]) query.set(name, question[name]);
  return query.toString();
}

/** The same training of another model. */
export const withModel = (question: Question, model: Published): Question => ({
  ...Object.fromEntries(Object.entries(question).filter(([name]) => !OF_MODEL.includes(name))),
  ...model.inputs,
});

/** The published model that is asked for, if it is one. */
export const publishedOf = (question: Question): Published | undefined =>
  PUBLISHED.find(({ inputs }) => OF_MODEL.every((name) => (inputs[name] ?? "") === (question[name] ?? "")));

interface WaferMemory {
  working_bytes: number;
  boundary_bytes: number;
  capacity_bytes: number;
  spills: boolean;
}

/** What becomes of the activations that wait for the backward pass, and why. */
export function memoryNote({ working_bytes, boundary_bytes, capacity_bytes, spills }: WaferMemory): string {
  if (!spills) return "What waits for the backward pass stays on the wafer.";
  const why = boundary_bytes > capacity_bytes ? "is more than the wafer holds" : `does not fit beside the ${size(working_bytes)} of the widest layer step`;
  return `What waits for the backward pass ${why}: it leaves the wafer and returns, which takes time of its links.`;
}
