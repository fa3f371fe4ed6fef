/** Figures that documents state, by the name that they use in `<!--figure:name-->…<!--/figure-->`. */
export type Figures = Readonly<Record<string, string>>;

const SPAN = /(<!--figure:([\w-]+)-->)([\s\S]*?)(<!--\/figure-->)/g;

/** The text with each marked span holding its claim. Throws for a name that is none. */
export function filled(text: string, figures: Figures): string {
  return text.replaceAll(SPAN, (_, begin: string, name: string, _old: string, end: string) => {
    const figure = figures[name];
    if (figure === undefined) throw new Error(`there is no figure named ${name}`);
    return `${begin}${figure}${end}`;
  });
}

/** The names that a text uses. */
export function namesIn(text: string): readonly string[] {
  return [...text.matchAll(SPAN)].map(([, , name = '']) => name);
}
