/** A variable's value, or what is wrong with it in a person's words. */
export type Parsed<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly message: string };

export function text(): (value: string) => Parsed<string> {
  return (value) => ({ ok: true, value });
}

/** A comma-separated list; empty parts are left out. */
export function list(): (value: string) => Parsed<readonly string[]> {
  return (value) => ({
    ok: true,
    value: value
      .split(',')
      .map((part) => part.trim())
      .filter((part) => part !== ''),
  });
}

/** A whole number within bounds. */
export function number(min: number, max: number): (value: string) => Parsed<number> {
  return (value) => {
    const parsed = Number(value);
    return /^\d{1,12}$/.test(value) && parsed >= min && parsed <= max
      ? { ok: true, value: parsed }
      : { ok: false, message: `must be a whole number from ${min} to ${max}` };
  };
}

/** A number with a unit, e.g. `10s`; the answer is in the unit whose factor is 1. */
export function size(
  units: Readonly<Record<string, number>>,
  min: number,
  max: number,
): (value: string) => Parsed<number> {
  return (value) => {
    const match = /^(\d{1,9})([a-z]+)$/.exec(value);
    const factor = units[match?.[2] ?? ''];
    const parsed = Number(match?.[1]) * (factor ?? Number.NaN);
    return parsed >= min && parsed <= max
      ? { ok: true, value: parsed }
      : {
          ok: false,
          message: `must be a number with a unit (${Object.keys(units).join(', ')}), within bounds`,
        };
  };
}
