/** One line of a log as a person reads it. Pods log JSON; whatever else they print stays as it is. */

interface Record {
  time: string;
  level: string;
  logger: string;
  message: string;
}

const FIXED = new Set(["time", "level", "logger", "message", "traceback"]);

export function readable(line: string): string {
  const record = parsed(line);
  if (!record) return line;
  const fields = Object.entries(record)
    .filter(([name]) => !FIXED.has(name))
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`);
  const time = record.time.slice(11, 23);
  const head = `${time} ${record.level.padEnd(7)} ${record.logger.replace(/^appliance\./, "")}: ${record.message}`;
  const traceback = (record as Record & { traceback?: string }).traceback;
  return [[head, ...fields].join("  "), ...(traceback ? [traceback] : [])].join("\n");
}

function parsed(line: string): Record | null {
  if (!line.startsWith("{")) return null;
  try {
    const value = JSON.parse(line) as Record;
    return typeof value.time === "string" && typeof value.level === "string" && typeof value.logger === "string" ? value : null;
  } catch {
    return null;
  }
}
