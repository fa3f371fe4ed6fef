/**
 * Takes figures that another load of the machine can spoil, such as a rate compared with the one a moment before. Where
 * the first miss their bound, both of two more have to hold: the middle one of three decides, as it does where most hold.
 * Returns the figures that decide.
 */
export async function measured<Figures>(
  measure: () => Promise<Figures>,
  holds: (figures: Figures) => boolean,
): Promise<Figures> {
  const first = await measure();
  if (holds(first)) return first;
  const second = await measure();
  return holds(second) ? await measure() : second;
}
