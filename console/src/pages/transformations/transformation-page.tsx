import { Page } from '../../shared/page.tsx';

export function TransformationPage() {
  return <Page title="Transformation">{null}</Page>;
}
