import '@mantine/charts/styles.css';
import { BarChart } from '@mantine/charts';
import { shortNumberText } from '../../shared/quantities.ts';
import type { Range } from './search.ts';
import type { Volume } from './volume.ts';

const COLORS = ['blue.6', 'teal.6', 'orange.6', 'grape.6', 'cyan.6', 'pink.6'];
const OTHERS = 'gray.5';

const LABELS: Readonly<Record<Range, Intl.DateTimeFormat>> = {
  '24h': new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hour12: false }),
  '7d': new Intl.DateTimeFormat(undefined, { weekday: 'short', hour: '2-digit', hour12: false }),
  '30d': new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' }),
};

interface Props {
  readonly volume: Volume;
  readonly range: Range;
}

/** Loaded when the overview is shown: charts are large. */
export function VolumeChart({ volume: { bars, series }, range }: Props) {
  return (
    <BarChart
      h={240}
      type="stacked"
      data={bars.map(({ start, counts }) => ({ label: LABELS[range].format(start), ...counts }))}
      dataKey="label"
      series={series.map(({ key, label }, index) => ({
        name: key,
        label,
        color: key === 'others' ? OTHERS : (COLORS[index] ?? OTHERS),
      }))}
      valueFormatter={shortNumberText}
      withLegend
      legendProps={{ verticalAlign: 'bottom' }}
      tickLine="none"
      barProps={{ isAnimationActive: false }}
      // The table below it can be reached by keyboard and has the numbers.
      barChartProps={{ accessibilityLayer: false }}
      yAxisProps={{ width: 44, allowDecimals: false }}
    />
  );
}
