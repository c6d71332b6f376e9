/** The appliance's description of its interface, as a list of operations: pure. */

export interface Schema {
  type?: string;
  $ref?: string;
  default?: unknown;
  enum?: readonly unknown[];
  items?: Schema;
  anyOf?: readonly Schema[];
}

interface Parameter {
  name: string;
  in: string;
  required?: boolean;
  schema?: Schema;
}

interface Content {
  content?: Record<string, { schema?: Schema }>;
  description?: string;
}

interface Described {
  summary?: string;
  description?: string;
  tags?: readonly string[];
  parameters?: readonly Parameter[];
  requestBody?: Content;
  responses: Record<string, Content>;
}

export interface Description {
  info: { title: string; description: string };
  paths: Record<string, Record<string, Described>>;
}

export interface Operation {
  method: string;
  path: string;
  tag: string;
  summary: string;
  description: string;
  parameters: readonly Parameter[];
  /** Type of what is sent; empty for nothing. */
  body: string;
  /** Status and type of each answer. */
  answers: readonly (readonly [string, string])[];
}

/** Every operation, in the order of the description. */
export function operationsOf(described: Description): Operation[] {
  return Object.entries(described.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, each]) => ({
      method: method.toUpperCase(),
      path,
      tag: each.tags?.[0] ?? "other",
      summary: each.summary ?? "",
      description: each.description ?? "",
      parameters: each.parameters ?? [],
      body: each.requestBody ? typeOfContent(each.requestBody) : "",
      answers: Object.entries(each.responses).map(([status, answer]) => [status, typeOfContent(answer)] as const),
    })),
  );
}

function typeOfContent({ content, description = "" }: Content): string {
  const [kind, first] = Object.entries(content ?? {})[0] ?? [];
  if (!kind) return description;
  return first?.schema && Object.keys(first.schema).length > 0 ? typeName(first.schema) : kind;
}

/** A type as a person names it, as in `JobPage`, `list of string`, `integer or null`. */
export function typeName(schema: Schema | undefined): string {
  if (!schema) return "any";
  if (schema.$ref) return schema.$ref.split("/").at(-1) ?? "any";
  if (schema.anyOf) return schema.anyOf.map(typeName).join(" or ");
  if (schema.enum) return schema.enum.map(String).join(" | ");
  if (schema.type === "array") return `list of ${typeName(schema.items)}`;
  return schema.type ?? "any";
}
