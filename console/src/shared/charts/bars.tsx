import '@mantine/charts/styles.css';
import { BarChart } from '@mantine/charts';
import type { HourlyBarsProps } from '../hourly-bars.tsx';

/** Loaded by `HourlyBars`. */
export function Bars({ data, series, height = 180 }: HourlyBarsProps) {
  return (
    <BarChart
      h={height}
      data={data.map(({ at, ...values }) => ({ at: labelOf(at, data.length), ...values }))}
      dataKey="at"
      type="stacked"
      series={series.map(({ name, label, color }) => ({ name, label, color }))}
      withLegend={series.length > 1}
      tickLine="y"
      barProps={{ isAnimationActive: false }}
    />
  );
}

const HOUR = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });
const DAY = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', hour: '2-digit' });

function labelOf(at: string, hours: number): string {
  return (hours <= 24 ? HOUR : DAY).format(new Date(at));
}
